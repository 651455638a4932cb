// What the options of several verbs have in common: how a size is read, and what is said of an option that there is
// not.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>

namespace stalloc::tools {

// An option that takes a size, by the grammar of the settings (runtime/base/byte_size.h).
CLI::Option* AddSizeOption(CLI::App& verb, const std::string& name, std::uint64_t& bytes, const std::string& sentence);

// The check of an option that counts something: a whole number from 0 to `most`.
CLI::Validator WholeNumber(std::uint32_t most = std::numeric_limits<std::uint32_t>::max());

// "; did you mean --capacity?" if `word` is nearly the name of one of the verb's options or, of an app, of one of its
// verbs; otherwise empty.
std::string DidYouMean(const CLI::App& app, const std::string& word);

}  // namespace stalloc::tools
