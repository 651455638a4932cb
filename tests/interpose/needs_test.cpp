// Programs that need what stalloc's usual ways do not give: PyTorch's own allocator, legacy IPC handles. What is found
// before the program starts, what only a run shows, and that the next run knows it.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "run_program.h"

namespace stalloc::interpose {
namespace {

constexpr const char* kAsync = "backend:cudaMallocAsync backend:cudaMallocAsync\n";
constexpr const char* kLeft = "- -\n";

class Needs : public testing::Test {
 protected:
  Needs() {
    std::string folder = std::filesystem::temp_directory_path() / "stalloc-needs-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = folder;
    environment_ = Plain();
    environment_["LD_LIBRARY_PATH"] = STALLOC_SIMCUDA_DIRECTORY;
    environment_["LD_PRELOAD"] = STALLOC_LIBRARY;
    environment_["STALLOC_SUMMARY"] = "0";
    environment_["STALLOC_PLAN_CACHE"] = folder_ / "not" / "there" / "yet";
  }
  ~Needs() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  Outcome Python(const std::vector<std::string>& arguments) const {
    std::vector<std::string> command = {Program("python_double")};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return RunProgram(command, environment_);
  }
  Outcome Run(const std::string& script) const { return Python({Write("train.py", script)}); }

  std::filesystem::path folder_;
  Environment environment_;
};

TEST_F(Needs, APlainScriptGetsTheAsyncBackend) {
  for (const char* script :
       {"import torch\n", "", "model = torch.compile(model)\n", "torch.compile(m, mode='max-autotune-no-cudagraphs')\n",
        "# mode='reduce-overhead' was slower\n", "config.triton.cudagraphs = False\n",
        "config.triton.cudagraph_trees = True\n",
        "p.add_argument('--mode', choices=['default', 'reduce-overhead'], default='default')\n"})
    EXPECT_EQ(Run(script).output, kAsync) << script;
  EXPECT_EQ(Python({folder_ / "nothing.py"}).output, kAsync);
  EXPECT_EQ(Python({}).output, kAsync);
}

TEST_F(Needs, AScriptThatSaysSoKeepsPyTorchsAllocator) {
  for (const char* script :
       {"import torch\nf = torch.compile(f, mode=\"reduce-overhead\")", "x = torch.compile(x, mode='max-autotune')\n",
        "torch._inductor.config.triton.cudagraphs = True\n", "opts = {\"triton.cudagraphs\": True}\n",
        "torch.compile(f, backend='cudagraphs')\n", "p.add_argument('--m', default='reduce-overhead', choices=['a'])\n",
        "p.add_argument('--mode', choices=['default', 'reduce-overhead'], default='reduce-overhead')\n",
        "torch.cuda.memory._record_memory_history()\n"})
    EXPECT_EQ(Run(script).output, kLeft) << script;
  Write("train.py", "import torch\n");
  EXPECT_EQ(Python({folder_ / "train.py", "--compile-mode=reduce-overhead"}).output, kLeft);
  EXPECT_EQ(Python({"-c", "import x\nf = g(mode='reduce-overhead')\n"}).output, kLeft);
}

TEST_F(Needs, ModulesBesideTheScriptAreItsOwn) {
  const char* feature = "def make(m):\n  return compile(m, mode='reduce-overhead')\n";
  Write("deep/inner/model.py", feature);
  Write("deep/inner/__init__.py", "from . import model\n");
  EXPECT_EQ(Run("import torch\nimport deep.inner as d\n").output, kLeft);
  EXPECT_EQ(Run("from deep import inner\n").output, kLeft);
  EXPECT_EQ(Run("from deep.inner.model import make\n").output, kLeft);
  EXPECT_EQ(Run("import deep\n").output, kAsync);  // does not import it
  Write("other.py", feature);
  EXPECT_EQ(Run("import torch\n").output, kAsync);
  EXPECT_EQ(Run("import json, other\n").output, kLeft);
  Write("a.py", "import b\n");
  Write("b.py", "import a\n");
  EXPECT_EQ(Run("import a\n").output, kAsync);
}

TEST_F(Needs, TheReasonIsSaidOnceCudaIsUsed) {
  environment_["CUDA"] = "1";
  const Outcome outcome = Run("import torch\nf = torch.compile(f, mode='reduce-overhead')\n");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.output.find("train.py line 2 has reduce-overhead"), std::string::npos) << outcome.output;
  EXPECT_EQ(Run("import torch\n").output, kAsync);  // nothing to be said
}

TEST_F(Needs, RegisteredBuffersOfNcclKeepPyTorchsAllocator) {
  const char* hook = "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK";
  environment_[hook] = "1";
  EXPECT_EQ(Run("import torch\n").output, kLeft);
  environment_[hook] = "0";
  EXPECT_EQ(Run("import torch\n").output, kAsync);
}

TEST_F(Needs, WhatTheUserSetStays) {
  environment_["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True";
  EXPECT_EQ(Run("mode='reduce-overhead'\n").output, "- expandable_segments:True\n");
  environment_["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync";
  EXPECT_EQ(Run("mode='reduce-overhead'\n").output, "- backend:cudaMallocAsync\n");
}

// A shell or a launcher has the preload too, and sets for its children what they may have to take back.
TEST_F(Needs, WhatAnAncestorSetIsNotTheUsers) {
  const std::string script = Write("train.py", "mode='reduce-overhead'\n");
  const std::string plain = Write("plain.py", "import torch\n");
  const std::string python = Program("python_double");
  const auto shell = [&](const std::string& text) { return RunProgram({"sh", "-c", text}, environment_).output; };
  EXPECT_EQ(shell(python + " " + script + "; true"), kLeft);
  EXPECT_EQ(shell(python + " " + plain + "; true"), kAsync);
  EXPECT_EQ(shell("PYTORCH_ALLOC_CONF=max_split_size_mb:64 " + python + " " + plain + "; true"),
            "max_split_size_mb:64 -\n");
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
  EXPECT_NE(second.output.find("an earlier run of this program used them"), std::string::npos) << second.output;
  // Another program knows nothing of it; nor does anybody where nothing is kept.
  EXPECT_TRUE(Python({Write("other.py", "import library\n")}).output.starts_with(kAsync));
  environment_["STALLOC_PLAN_CACHE"] = "off";
  const Outcome unkept = Run("import library\n");
  EXPECT_TRUE(unkept.output.starts_with(kAsync));
  EXPECT_NE(unkept.output.find(": PYTORCH_ALLOC_CONF=backend:native leaves"), std::string::npos) << unkept.output;
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

// Memory that PyTorch is to give to other processes is the driver's from the first run on, where the source says so.
TEST_F(Needs, AScriptThatSharesCudaMemoryIsKnown) {
  const std::string script = "from torch.multiprocessing.reductions import reduce_tensor\n";
  EXPECT_EQ(Run(script).output, kLeft);
  for (const char* other :
       {"import torch.multiprocessing as mp\nmp.spawn(train, nprocs=8)\n", "queue = mp.Queue()\nqueue.put(tensor)\n",
        "loader = DataLoader(data, num_workers=4)\n", "def reduce_tensor(t): dist.all_reduce(t)\n",
        "from multiprocessing import reduction\n", "model.share_memory()\n"})
    EXPECT_EQ(Run(other).output, kAsync) << other;
  environment_["CUDA"] = "handle";
  const Outcome shared = Run(script);
  EXPECT_EQ(shared.exit_code, 0) << shared.output;
  EXPECT_NE(shared.output.find("train.py line 1 has torch.multiprocessing.reductions"), std::string::npos);
  EXPECT_NE(Run("import torch\n").exit_code, 0);
  environment_["STALLOC_PLAN_CACHE"] = "off";  // what the run before has shown is not known
  environment_["STALLOC_IPC"] = "off";
  EXPECT_NE(Run(script).exit_code, 0);
  EXPECT_TRUE(Run(script).output.starts_with(kAsync));
}

TEST_F(Needs, IpcHandlesWithoutTheShim) {
  environment_.erase("LD_PRELOAD");
  EXPECT_EQ(RunProgram({Program("ipc")}, environment_).exit_code, 0);
}

TEST_F(Needs, IpcKeepsPyTorchsAllocatorIfTheUserSaysSo) {
  EXPECT_EQ(Run("import torch\n").output, kAsync);
  environment_["STALLOC_IPC"] = "on";
  EXPECT_EQ(Run("import torch\n").output, kLeft);
}

}  // namespace
}  // namespace stalloc::interpose
