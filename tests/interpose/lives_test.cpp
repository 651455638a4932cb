// Processes that go on as another image, start others, end in unusual ways, or run under a tool: libstalloc.so over the
// simulated device.
#include <gtest/gtest.h>

#include <filesystem>

#include "run_program.h"

namespace stalloc::interpose {
namespace {

std::size_t Summaries(const Outcome& outcome) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = outcome.output.find(" online, ", at)) != std::string::npos; ++at) ++count;
  return count;
}

struct Life {
  const char* mode;
  int exit_code;
  std::size_t summaries;  // one for each image that came to its end
};

struct Lives : testing::TestWithParam<Life> {};

TEST_P(Lives, AreWhatTheyAreWithoutTheShim) {
  const Outcome plain = RunProgram({Program("lives"), GetParam().mode}, Simulated());
  EXPECT_EQ(plain.exit_code, GetParam().exit_code) << plain.output;
  const Outcome served = RunProgram({Program("lives"), GetParam().mode}, Served());
  EXPECT_EQ(served.exit_code, GetParam().exit_code) << served.output;
  EXPECT_EQ(Summaries(served), GetParam().summaries) << served.output;
}

INSTANTIATE_TEST_SUITE_P(Ends, Lives,
                         testing::Values(Life{"plain", 0, 1}, Life{"exec", 0, 1}, Life{"spawn", 0, 2},
                                         Life{"thread", 9, 1}, Life{"quick", 5, 0}, Life{"killed", 128 + 14, 0}),
                         [](const auto& life) { return std::string(life.param.mode); });

std::string FolderWith(const char* library) {
  std::string folder = std::filesystem::temp_directory_path() / "stalloc-lives-XXXXXX";
  EXPECT_NE(::mkdtemp(folder.data()), nullptr);
  std::filesystem::copy_file(STALLOC_COUNTING_PRELOAD, folder + "/" + library);
  return folder;
}

// The driver loads it, or the dynamic linker.
TEST(MemoryChecker, IsLeftTheDriversMemory) {
  Environment environment = Served();
  environment["CUDA_INJECTION64_PATH"] = "/opt/compute-sanitizer/libsanitizer-collection.so";
  const Outcome said = RunProgram({Program("lives")}, environment);
  EXPECT_EQ(said.exit_code, 0) << said.output;
  EXPECT_EQ(Summaries(said), 0u) << said.output;
  EXPECT_NE(said.output.find("compute-sanitizer is attached"), std::string::npos) << said.output;

  const std::string folder = FolderWith("libsanitizer-public.so");
  environment = Served();
  environment["LD_PRELOAD"] = STALLOC_LIBRARY ":" + folder + "/libsanitizer-public.so";
  const Outcome loaded = RunProgram({Program("lives")}, environment);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(loaded.exit_code, 0) << loaded.output;
  EXPECT_NE(loaded.output.find("compute-sanitizer is attached"), std::string::npos) << loaded.output;
}

// Profilers, MPS, MIG and a choice of devices are the driver's business.
TEST(Environments, ThatTheDriverReadsChangeNothing) {
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"CUDA_INJECTION64_PATH", "/opt/nvidia/nsight-compute/libcuda-injection.so"},
           {"CUDA_MPS_PIPE_DIRECTORY", "/tmp/mps"},
           {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50"},
           {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=4G"},
           {"CUDA_VISIBLE_DEVICES", "MIG-5c2f3c2e-0000-1111-2222-333344445555"},
           {"CUDA_VISIBLE_DEVICES", "0"},
           {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
           {"CUDA_LAUNCH_BLOCKING", "1"},
           {"CUDA_MODULE_LOADING", "EAGER"}}) {
    Environment environment = Served();
    environment[name] = value;
    const Outcome outcome = RunProgram({Program("lives")}, environment);
    EXPECT_EQ(outcome.exit_code, 0) << name << ": " << outcome.output;
    EXPECT_NE(outcome.output.find("3 online, 0 passed through"), std::string::npos) << name << ": " << outcome.output;
  }
}

}  // namespace
}  // namespace stalloc::interpose
