// Walks CUDA's own headers: every function that has to do with device memory must stand in the table, so that one which
// a future CUDA adds is noticed here and not by a program whose memory goes wrong.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace {

// Without CUDA's headers, so that no name of the table is a macro here.
std::set<std::string> Classified() {
  return {
#define STALLOC_DRIVER(name, base, version, handling) #name,
#define STALLOC_DRIVER_PTSZ(name, base, version, handling) #name,
#define STALLOC_RUNTIME(name, declaration, handling) #name,
#define STALLOC_RUNTIME_PTSZ(name, declaration, handling) #name,
#define STALLOC_BENEATH(name, driver_name) #name,
#define STALLOC_PASS(name, reason) #name,
#include "entry_points.def"
  };
}

std::set<std::string> Wrapped() {
  return {
#define STALLOC_DRIVER(name, base, version, handling) #name,
#define STALLOC_DRIVER_PTSZ(name, base, version, handling) #name,
#define STALLOC_RUNTIME(name, declaration, handling) #name,
#define STALLOC_RUNTIME_PTSZ(name, declaration, handling) #name,
#include "entry_points.def"
  };
}

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Symbols that a header declares: names as written, and what its #defines turn them into.
std::set<std::string> DeclaredSymbols(const std::string& header) {
  const std::string text = Read(std::string(STALLOC_CUDA_HEADERS) + "/" + header);
  EXPECT_FALSE(text.empty()) << header << " not found in " << STALLOC_CUDA_HEADERS;
  std::set<std::string> symbols;
  const std::regex declaration(R"((?:CUDAAPI|CUDARTAPI)\s+(cu\w+)\s*\()");
  for (auto match = std::sregex_iterator(text.begin(), text.end(), declaration); match != std::sregex_iterator();
       ++match) {
    symbols.insert((*match)[1]);
  }
  const std::regex mapping(R"(#\s*define\s+(cu\w+)\s+(?:__CUDA(?:RT)?_API_(PTSZ|PTDS)\((cu\w+)\)|(cu\w+)))");
  for (auto match = std::sregex_iterator(text.begin(), text.end(), mapping); match != std::sregex_iterator(); ++match) {
    if ((*match)[4].matched) symbols.insert((*match)[4]);
    if (!(*match)[3].matched) continue;
    symbols.insert((*match)[3]);
    symbols.insert((*match)[3].str() + ((*match)[2] == "PTSZ" ? "_ptsz" : "_ptds"));
  }
  return symbols;
}

// Names of functions that give, take, describe, share or reset device memory, or hand out functions that do; or that
// make or end what memory is ordered by.
bool OfTheFamily(const std::string& name) {
  static const std::regex family(
      R"(cu(da)?(Mem(?!cpy|set|Prefetch|Discard|Advise|BatchDecompress)|Malloc|Free|Array3?D?Create|MipmappedArrayCreate|)"
      R"(Pointer|Ipc\w*Mem|Device\w*MemPool|DevicePrimaryCtx(Release|Reset)|DeviceReset|CtxDestroy|StreamDestroy|)"
      R"(Stream(Begin|End)Capture|StreamWaitEvent|EventRecord|Multicast\w*(Bind|Create)|Graph\w*Mem(Alloc|Free)|)"
      R"(GetProcAddress|GetDriverEntryPoint|GetExportTable)\w*)");
  return std::regex_match(name, family);
}

class HeaderWalk : public testing::TestWithParam<const char*> {};

TEST_P(HeaderWalk, EveryAllocationFunctionIsClassified) {
  const std::set<std::string> classified = Classified();
  std::string missing;
  std::size_t seen = 0;
  for (const std::string& symbol : DeclaredSymbols(GetParam())) {
    if (!OfTheFamily(symbol)) continue;
    ++seen;
    if (classified.count(symbol) == 0) missing += "\n  " + symbol;
  }
  EXPECT_GT(seen, 50u) << "the walk has not understood " << GetParam();
  EXPECT_EQ(missing, "") << "\nThese need a row in interpose/entry_points.def";
}

INSTANTIATE_TEST_SUITE_P(Headers, HeaderWalk, testing::Values("cuda.h", "cuda_runtime_api.h"),
                         [](const auto& header) { return std::string(header.index == 0 ? "Driver" : "Runtime"); });

TEST(Table, HasNoRowTwice) {
  std::map<std::string, int> rows;
#define STALLOC_DRIVER(name, base, version, handling) ++rows[#name];
#define STALLOC_DRIVER_PTSZ(name, base, version, handling) ++rows[#name];
#define STALLOC_RUNTIME(name, declaration, handling) ++rows[#name];
#define STALLOC_RUNTIME_PTSZ(name, declaration, handling) ++rows[#name];
#define STALLOC_BENEATH(name, driver_name) ++rows[#name];
#define STALLOC_PASS(name, reason) ++rows[#name];
#include "entry_points.def"
  for (const auto& [name, count] : rows) EXPECT_EQ(count, 1) << name;
}

TEST(Table, WhatIsHandledBeneathIsWrappedThere) {
  const std::set<std::string> wrapped = Wrapped();
#define STALLOC_BENEATH(name, driver_name) EXPECT_EQ(wrapped.count(#driver_name), 1u) << #name;
#include "entry_points.def"
}

TEST(Table, EveryServedStreamFunctionHasItsPerThreadForm) {
  const std::set<std::string> wrapped = Wrapped();
  std::set<std::string> declared = DeclaredSymbols("cuda.h");
  declared.merge(DeclaredSymbols("cuda_runtime_api.h"));
  declared.erase("cuGetProcAddress_v2_ptsz");  // no symbol: an inline function
  for (const std::string& name : wrapped) {
    if (declared.count(name + "_ptsz") != 0) {
      EXPECT_EQ(wrapped.count(name + "_ptsz"), 1u) << name;
    }
  }
}

TEST(Table, PrefixedNamesOfThe32BitInterfaceAreNeverServed) {
  const std::set<std::string> wrapped = Wrapped();
  for (const char* name : {"cuMemAlloc", "cuMemFree", "cuMemAllocPitch", "cuMemGetInfo", "cuMemGetAddressRange"}) {
    EXPECT_EQ(wrapped.count(name), 0u) << name;
  }
}

}  // namespace
