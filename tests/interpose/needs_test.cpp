// Programs that need what stalloc's usual ways do not give: PyTorch's own allocator, legacy IPC handles. What is found
// before the program starts, what only a run shows, and that the next run knows it.
#include "needs_fixture.h"

namespace stalloc::interpose {
namespace {

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
        "torch.cuda.memory._record_memory_history()\n", "m = torch.cuda.make_graphed_callables(m, (x,))\n"})
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

TEST_F(Needs, IpcKeepsPyTorchsAllocatorIfTheUserSaysSo) {
  EXPECT_EQ(Run("import torch\n").output, kAsync);
  environment_["STALLOC_IPC"] = "on";
  EXPECT_EQ(Run("import torch\n").output, kLeft);
}

}  // namespace
}  // namespace stalloc::interpose
