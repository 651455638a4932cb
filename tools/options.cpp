#include "tools/options.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/base/byte_size.h"
#include "runtime/base/nearest_word.h"

namespace stalloc::tools {
namespace {

// Replaces the text by the number of bytes that it stands for; returns what is wrong with it, or nothing.
std::string ReadSize(std::string& text) {
  const std::optional<std::uint64_t> bytes = runtime::ParseByteSize(text);
  if (!bytes) return "\"" + text + "\" is no size; it must be " + runtime::kByteSizeGrammar;
  text = std::to_string(*bytes);
  return {};
}

std::string CheckWholeNumber(const std::string& text, std::uint32_t most) {
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc{} && stop == end && number <= most) return {};
  return "\"" + text + "\" is no whole number from 0 to " + std::to_string(most);
}

}  // namespace

CLI::Validator WholeNumber(std::uint32_t most) {
  return {[most](const std::string& text) { return CheckWholeNumber(text, most); }, "", "whole number"};
}

CLI::Option* AddSizeOption(CLI::App& verb, const std::string& name, std::uint64_t& bytes, const std::string& sentence) {
  return verb.add_option(name, bytes, sentence)->transform(CLI::Validator(ReadSize, "", "size"))->type_name("SIZE");
}

std::string DidYouMean(const CLI::App& app, const std::string& word) {
  const std::string written = word.substr(0, word.find('='));
  std::vector<std::string> names;
  if (written.starts_with("-")) {
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_group().empty()) continue;  // hidden
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  } else {
    for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  const auto nearest = runtime::NearestWord(written, known);
  return nearest ? "; did you mean " + std::string(*nearest) + "?" : std::string();
}

}  // namespace stalloc::tools
