// What frameworks are told when they ask for their allocator; and programs that need what stalloc's usual ways do not
// give (PyTorch's own allocator, legacy IPC handles): what a run shows, and that the next run knows it.
#include "needs_fixture.h"

namespace stalloc::interpose {
namespace {

// PyTorch's own library gets the answer; the program and everybody else see the environment as it is.
TEST_F(Needs, PyTorchAloneIsToldOfItsBackend) {
  EXPECT_EQ(Run("import torch\n").output, kAsync);
  EXPECT_EQ(Run("f = torch.compile(f, mode='reduce-overhead')\n").output, kAsync);  // nobody reads it
  environment_["ASKING_LIBRARY"] = STALLOC_ASKING_OTHER;
  EXPECT_EQ(Run("import torch\n").output, kLeft);
}

TEST_F(Needs, TheCachingAllocatorsOptionsGiveWay) {
  const std::string users =
      "expandable_segments:True, pinned_use_background_threads:True,roundup_power2_divisions:[256:1,512:2]";
  const std::string told = "backend:cudaMallocAsync,pinned_use_background_threads:True";
  environment_["PYTORCH_CUDA_ALLOC_CONF"] = users;
  EXPECT_EQ(Run("").output, told + " [-] " + told + " [" + users + "] \n");
  environment_["STALLOC_LOG"] = "info";
  const std::string said = Run("").output;
  const std::string line = "without a meaning there: expandable_segments:True,roundup_power2_divisions:[256:1,512:2]\n";
  const std::size_t at = said.find(line);
  ASSERT_NE(at, std::string::npos) << said;
  EXPECT_EQ(said.find(line, at + 1), std::string::npos) << said;
}

// As by os.environ, before the import.
TEST_F(Needs, WhatTheProgramSetsItselfGivesWayToo) {
  environment_["SETS"] = "PYTORCH_ALLOC_CONF=max_split_size_mb:64";
  EXPECT_EQ(Run("").output, "backend:cudaMallocAsync [max_split_size_mb:64] backend:cudaMallocAsync [-] \n");
}

TEST_F(Needs, ABackendThatTheUserNamesIsObeyed) {
  for (const char* users : {"backend:native", "max_split_size_mb:64, backend:native", "backend:cudaMallocAsync"}) {
    environment_["PYTORCH_CUDA_ALLOC_CONF"] = users;
    EXPECT_EQ(Run("").output, std::string("- [-] ") + users + " [" + users + "] \n");
  }
}

TEST_F(Needs, SettingsThatLeavePyTorchAlone) {
  for (const char* setting : {"STALLOC_FRAMEWORKS=0", "STALLOC_DISABLE=1", "STALLOC_IPC=on"}) {
    const std::string text = setting;
    const std::string name = text.substr(0, text.find('='));
    environment_[name] = text.substr(text.find('=') + 1);
    EXPECT_EQ(Run("").output, kLeft) << setting;
    environment_.erase(name);
  }
}

// NCCL reads it in PyTorch's library, and would ask the backend for what it refuses.
TEST_F(Needs, RegisteredBuffersOfNcclGiveWay) {
  const std::string hook = "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK";
  environment_["ASKING_LIBRARY"] = STALLOC_ASKING_TORCH;
  environment_[hook] = "1";
  environment_["NAMES"] = hook;
  EXPECT_EQ(Run("").output, "1 [1] \n");  // PyTorch has not asked for its backend
  environment_["NAMES"] = "PYTORCH_ALLOC_CONF " + hook;
  const std::string output = Run("").output;
  EXPECT_NE(output.find("backend:cudaMallocAsync [-] - [1] \n"), std::string::npos) << output;
  EXPECT_NE(output.find(hook + " has no effect"), std::string::npos) << output;
  environment_["PYTORCH_ALLOC_CONF"] = "backend:native";
  EXPECT_EQ(Run("").output, "backend:native [backend:native] 1 [1] \n");
}

TEST_F(Needs, TensorFlowIsTold) {
  environment_["ASKING_LIBRARY"] = STALLOC_ASKING_TENSORFLOW;
  environment_["NAMES"] = "TF_GPU_ALLOCATOR";
  EXPECT_EQ(Run("").output, "cuda_malloc_async [-] \n");
  environment_["TF_GPU_ALLOCATOR"] = "";
  EXPECT_EQ(Run("").output, " [] \n");
}

// Children decide for themselves: they inherit nothing.
TEST_F(Needs, AChildMayDecideOtherwise) {
  environment_["CHILD"] = "import torch";
  EXPECT_EQ(Run("").output, std::string(kAsync) + kAsync);
  environment_["CHILD_SETS"] = "STALLOC_DISABLE=1";
  EXPECT_EQ(Run("").output, std::string(kAsync) + kLeft);
}

TEST_F(Needs, AnEmptyCaptureIsRememberedForTheNextRun) {
  environment_["CUDA"] = "full";
  EXPECT_EQ(Run("import library\n").output, kAsync);
  environment_["CUDA"] = "empty";
  const Outcome first = Run("import library\n");
  EXPECT_EQ(first.exit_code, 0);
  EXPECT_NE(first.output.find("sets up CUDA graph pools"), std::string::npos) << first.output;
  EXPECT_NE(first.output.find("the next run leaves PyTorch"), std::string::npos) << first.output;
  const Outcome second = Run("import library\n");
  EXPECT_TRUE(second.output.starts_with(kLeft)) << second.output;
  EXPECT_NE(second.output.find("an earlier run of this program used CUDA graph pools"), std::string::npos)
      << second.output;
  // Another program knows nothing of it; nor does anybody where nothing is kept.
  EXPECT_TRUE(Python({Write("other.py", "import library\n")}).output.starts_with(kAsync));
  environment_["STALLOC_PLAN_CACHE"] = "off";
  const Outcome unkept = Run("import library\n");
  EXPECT_TRUE(unkept.output.starts_with(kAsync));
  EXPECT_NE(unkept.output.find(": PYTORCH_ALLOC_CONF=backend:native leaves"), std::string::npos) << unkept.output;
}

// As the captures of backward passes end on PyTorch's cudaMallocAsync backend.
TEST_F(Needs, AnUnjoinedCaptureIsRememberedForTheNextRun) {
  environment_["CUDA"] = "unjoined";
  const Outcome first = Run("import library\n");
  EXPECT_EQ(first.exit_code, 0) << first.output;
  EXPECT_NE(first.output.find("the next run leaves PyTorch"), std::string::npos) << first.output;
  EXPECT_TRUE(Run("import library\n").output.starts_with(kLeft));
}

TEST_F(Needs, IpcHandlesAreRefusedOnceAndThenGiven) {
  const auto run = [&] { return RunProgram({Program("ipc")}, environment_); };
  const Outcome first = run();
  EXPECT_EQ(first.exit_code, 3) << first.output;
  EXPECT_NE(first.output.find("STALLOC_IPC=on"), std::string::npos) << first.output;
  EXPECT_EQ(first.output.find("legacy IPC handle", first.output.find("legacy IPC handle") + 1), std::string::npos);
  const Outcome second = run();
  EXPECT_EQ(second.exit_code, 0) << second.output;
  EXPECT_NE(second.output.find("an earlier run of this program asked"), std::string::npos) << second.output;
  environment_["STALLOC_IPC"] = "off";
  EXPECT_EQ(run().exit_code, 3);
  environment_["STALLOC_IPC"] = "on";
  environment_["STALLOC_SUMMARY"] = "1";
  const Outcome asked = run();
  EXPECT_EQ(asked.exit_code, 0) << asked.output;
  EXPECT_NE(asked.output.find("1 online, 1 passed through"), std::string::npos) << asked.output;
  EXPECT_EQ(asked.output.find("warn"), std::string::npos) << asked.output;
}

TEST_F(Needs, IpcHandlesWithoutTheShim) {
  environment_.erase("LD_PRELOAD");
  EXPECT_EQ(RunProgram({Program("ipc")}, environment_).exit_code, 0);
}

}  // namespace
}  // namespace stalloc::interpose
