// Python programs that send CUDA tensors to other processes: found by their source before PyTorch chooses its
// allocator, and their children with them.
#include "needs_fixture.h"

namespace stalloc::interpose {
namespace {

constexpr const char* kImport = "import torch.multiprocessing as mp\n";

// Memory that PyTorch is to give to other processes is the driver's from the first run on, where the source says so.
TEST_F(Needs, AScriptThatSharesCudaMemoryIsKnown) {
  const std::string script = "from torch.multiprocessing.reductions import reduce_tensor\n";
  EXPECT_EQ(Run(script).output, kLeft);
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

TEST_F(Needs, TensorsGoThroughQueuesOfTorch) {
  for (const char* script : {
           "import torch.multiprocessing as mp\nq = mp.Queue()\n",
           "import torch.multiprocessing\nq = torch.multiprocessing.SimpleQueue()\n",
           "import torch\nq = torch.multiprocessing.JoinableQueue(8)\n",
           "import torch as th\nctx = th.multiprocessing.get_context('spawn')\na, b = ctx.Pipe()\n",
           "from torch import multiprocessing\nwith multiprocessing.Manager() as manager: pass\n",
           "from torch import nn, multiprocessing as tmp\nq: tmp.Queue = tmp.Queue()\n",
           "from torch.multiprocessing import Process, Queue\nqueues = [Queue() for _ in range(4)]\n",
           "from torch.multiprocessing import (\n    Process,  # a rank\n    Queue as Channel,\n)\nq = Channel()\n",
           "from torch.multiprocessing import *\nparent, child = Pipe()\n",
           "from torch.multiprocessing.queue import SimpleQueue\nq = SimpleQueue()\n",
           "import torch.multiprocessing as mp\nq = mp.get_context(\n  method='spawn').Queue()\n",
           "import torch.multiprocessing as mp\nclass A:\n  def __init__(self):\n    self.q = self.ctx.Queue()\n",
           "try: import torch.multiprocessing as mp\nexcept ImportError: import multiprocessing as mp\nq = "
           "mp.Queue()\n",
           "import torch.multiprocessing, multiprocessing as mp\nq = mp.Queue()\n",  // sends tensors as well
           "import torch.multiprocessing as mp\nwith mp.Pool(4) as pool: pool.map(f, tensors)\n",
           "import torch.multiprocessing as mp\nmodel.to('cuda').share_memory()\n",
           "import torch.multiprocessing as mp; s = 'it''s # no comment'; q = mp.Queue()\n",
           "import torch.multiprocessing as mp\ns = r'a\\'; b'; q = \\\n  mp.Queue()\n",
       })
    EXPECT_EQ(Run(script).output, kLeft) << script;
  EXPECT_EQ(Python({"-c", "import torch.multiprocessing as mp; q = mp.Queue()"}).output, kLeft);
}

TEST_F(Needs, WhatOnlyLooksLikeAQueueOfTorchDoesNot) {
  for (const char* script : {
           "import torch.multiprocessing as mp\nmp.spawn(train, nprocs=8)\n",
           "import torch.multiprocessing as mp\nmp.set_start_method('spawn')\nmp.Process(target=train).start()\n",
           "queue = mp.Queue()\nqueue.put(tensor)\n",
           "import multiprocessing as mp\nimport torch\nq = mp.Queue()\n",
           "loader = DataLoader(data, num_workers=4, multiprocessing_context='spawn')\n",
           "def reduce_tensor(t): dist.all_reduce(t)\n",
           "from multiprocessing import reduction\n",
           "model.share_memory()\n",
           "import torch.multiprocessing as mp\nimport queue, asyncio\nq = queue.Queue()\nr = asyncio.Queue()\n",
           "import torch.multiprocessing as mp\nfrom queue import Queue\nq = Queue()\nmp.spawn(train)\n",
           "import torch.multiprocessing as mp\nfrom faster_fifo import Queue\nq = Queue()\n",
           "import torch.multiprocessing as mp\nfrom multiprocessing import Pool\nPool(8).map(read, files)\n",
           "import torch.multiprocessing as mp\nctx = mp.get_context('fork')\nq = ctx.Queue()\n",
           "import torch.multiprocessing as mp\nq = mp.get_context(\"fork\").Queue()\n",
           "import torch.multiprocessing as mp\n# q = mp.Queue()\n",
           "import torch.multiprocessing as mp\ns = 'q = mp.Queue()'\n",
           "import torch.multiprocessing as mp\ndef f():\n  \"\"\"Like\n  q = mp.Queue()\n  \"\"\"\n",
           "'''\nimport torch.multiprocessing as mp\nq = mp.Queue()\n'''\n",
           "import torch.multiprocessing as mp\nprint(f'''{1}\nmp.Queue()''')\n",
           "import torch.multiprocessing as mp\ndef work(q: mp.Queue, r) -> mp.Queue: pass\n",
           "from torch.multiprocessing import Queue\n",
           "import torch.multiprocessing as mp\nclass Queue: pass\nq = Queue()\n",
       })
    EXPECT_EQ(Run(script).output, kAsync) << script;
}

TEST_F(Needs, QueuesInModulesBesideTheScriptAreItsOwn) {
  Write("workers.py", "def make(ctx):\n  return ctx.Queue()\n");
  Write("start.py", "from torch import multiprocessing as mp\nimport json\n");
  EXPECT_EQ(Run("import workers\n").output, kAsync);
  EXPECT_EQ(Run("import start\n").output, kAsync);
  EXPECT_EQ(Run("import start, workers\n").output, kLeft);
  EXPECT_EQ(Run("from start import (\n  mp,\n  other,\n)\nq = mp.Queue()\n").output, kLeft);
  EXPECT_EQ(Run("'''\nimport start, workers\n'''\n").output, kAsync);
  // Many imports of what is installed do not use up what may be read.
  std::string many;
  for (int i = 0; i < 300; ++i) many += "import absent" + std::to_string(i) + ".a.b\n";
  EXPECT_EQ(Run(many + "import start, workers\n").output, kLeft);
}

TEST_F(Needs, BothNeedsOfOneProgramAreMet) {
  environment_["CUDA"] = "handle";
  const std::string script =
      "f = torch.compile(f, mode='reduce-overhead')\nimport torch.multiprocessing as mp\nmp.Queue()\n";
  const Outcome outcome = Run(script);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("train.py line 3 has mp.Queue"), std::string::npos) << outcome.output;
  environment_["STALLOC_IPC"] = "off";
  EXPECT_NE(Run(script).output.find("train.py line 1 has reduce-overhead"), std::string::npos);
}

// The user's choice of PyTorch's allocator says nothing of other processes: its memory must be the driver's all the
// same.
TEST_F(Needs, SharedMemoryIsTheDriversUnderTheUsersSettingsToo) {
  const std::string script = std::string(kImport) + "q = mp.Queue()\n";
  environment_["CUDA"] = "handle";
  environment_["PYTORCH_CUDA_ALLOC_CONF"] = "max_split_size_mb:64";
  const Outcome chosen = Run(script);
  EXPECT_EQ(chosen.exit_code, 0) << chosen.output;
  EXPECT_TRUE(chosen.output.starts_with("- max_split_size_mb:64\n")) << chosen.output;
  EXPECT_NE(chosen.output.find("cudaMalloc is left to the driver"), std::string::npos) << chosen.output;
  environment_.erase("PYTORCH_CUDA_ALLOC_CONF");
  environment_["STALLOC_FRAMEWORKS"] = "0";
  const Outcome off = Run(script);
  EXPECT_EQ(off.exit_code, 0) << off.output;
  EXPECT_TRUE(off.output.starts_with(kLeft)) << off.output;
}

// The scripts that are measured on GPUs: loaders, spawned or not, keep what the async backend gives.
TEST_F(Needs, TheScriptsOfTheFrameworksTable) {
  const std::string folder = STALLOC_FRAMEWORK_SCRIPTS "/";
  EXPECT_EQ(Python({folder + "torch_queue.py"}).output, kLeft);
  EXPECT_EQ(Python({folder + "torch_features.py", "loader_spawn"}).output, kAsync);
  EXPECT_EQ(Python({folder + "../ddp.py", "--mode", "fsdp2"}).output, kAsync);
  EXPECT_EQ(Python({folder + "torch_reduce_overhead.py"}).output, kLeft);
}

// A child of such a program, whatever its own command line is, decides as its parent, and says why if it uses CUDA.
TEST_F(Needs, ChildrenOfASharingProgramDecideAlike) {
  const std::string script = Write("train.py", std::string(kImport) + "q = mp.Queue()\n");
  const std::string plain = Write("plain.py", "import torch\n");
  environment_["CHILD"] = "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)";
  environment_["CUDA"] = "handle";
  const Outcome both = Python({script});
  EXPECT_EQ(both.exit_code, 0) << both.output;
  EXPECT_EQ(both.output.find("backend:"), std::string::npos) << both.output;
  const std::size_t said = both.output.find("train.py line 2 has mp.Queue (STALLOC_IPC=off");
  ASSERT_NE(said, std::string::npos) << both.output;
  EXPECT_NE(both.output.find("train.py line 2 has mp.Queue", said + 1), std::string::npos) << both.output;
  environment_["STALLOC_PLAN_CACHE"] = "off";
  EXPECT_NE(Python({plain}).exit_code, 0);
}

constexpr char kSpawns[] = R"(import os, sys
try:
    import torch.multiprocessing as mp
except ImportError:
    import multiprocessing as mp

def setting():
    return [os.environ.get(n) for n in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "STALLOC_IPC")]

def child(queue):
    queue.put(setting())

if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    print(setting(), queue.get())
    process.join()
)";

TEST_F(Needs, ChildrenOfPythonsOwnDecideAlike) {
  if (RunProgram({"sh", "-c", "command -v python3"}, Plain()).exit_code != 0) GTEST_SKIP() << "no python3 here";
  const std::string script = Write("train.py", kSpawns);
  for (const char* method : {"spawn", "forkserver", "fork"})
    EXPECT_EQ(RunProgram({"python3", script, method}, environment_).output, "[None, None, 'on'] [None, None, 'on']\n")
        << method;
  environment_["STALLOC_IPC"] = "off";
  const std::string served = "['backend:cudaMallocAsync', 'backend:cudaMallocAsync', 'off']";
  EXPECT_EQ(RunProgram({"python3", script, "spawn"}, environment_).output, served + ' ' + served + '\n');
}

TEST_F(Needs, AChildMayDecideOtherwise) {
  const std::string script = Write("train.py", std::string(kImport) + "q = mp.Queue()\n");
  const std::string plain = Write("plain.py", "import torch\n");
  environment_["CHILD_SETS"] = "STALLOC_IPC=off";
  environment_["CHILD"] = "import torch";
  EXPECT_EQ(Python({script}).output, std::string(kLeft) + kAsync);
}

// One that is not served finds nothing of it.
TEST_F(Needs, ADisabledChildOfASharingProgramFindsNoSetting) {
  const std::string script = Write("train.py", std::string(kImport) + "q = mp.Queue()\n");
  environment_["CHILD_SETS"] = "STALLOC_DISABLE=1";
  environment_["CHILD"] = "import torch";
  environment_["CUDA"] = "handle";
  const Outcome outcome = Python({script});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.output.find("has mp.Queue"), outcome.output.rfind("has mp.Queue")) << outcome.output;
}

}  // namespace
}  // namespace stalloc::interpose
