#include "runtime/call_sites/code_name.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace stalloc::runtime {
namespace {

constexpr std::size_t kMostCharacters = 80;

// Without the parameters, which fill lines and tell little.
std::string ShortName(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(abi::__cxa_demangle(symbol, nullptr, nullptr, &status),
                                                              &std::free);
  std::string name = status == 0 ? demangled.get() : symbol;
  int templates = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++templates;
    if (name[i] == '>') --templates;
    if (name[i] != '(' || templates != 0) continue;
    if (name.compare(i, 21, "(anonymous namespace)") == 0) continue;
    if (i >= 8 && name.compare(i - 8, 8, "operator") == 0) continue;
    name.resize(i);
  }
  if (name.size() > kMostCharacters) name = name.substr(0, kMostCharacters - 3) + "...";
  return name;
}

std::string Hex(std::uintptr_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%" PRIxPTR, value);
  return text;
}

}  // namespace

std::string CodeName(std::uintptr_t return_address) {
  Dl_info info{};
  const std::uintptr_t call = return_address - 1;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  if (::dladdr(reinterpret_cast<void*>(call), &info) == 0 || info.dli_fname == nullptr) return Hex(call);
  const char* slash = std::strrchr(info.dli_fname, '/');
  const std::string module = slash != nullptr ? slash + 1 : info.dli_fname;
  std::string place = module + "+" + Hex(call - reinterpret_cast<std::uintptr_t>(info.dli_fbase));
  if (info.dli_sname == nullptr) return place;
  return ShortName(info.dli_sname) + " (" + place + ")";
}

}  // namespace stalloc::runtime
