// The adapter in real interpreters: that it gets in, where it does not, and what it does to a double of PyTorch
// (python/fake_torch), over the simulated device. With a real PyTorch: torch_test.cpp.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "run_program.h"

namespace stalloc::interpose {
namespace {

class Python : public testing::Test {
 protected:
  void SetUp() override {
    if (RunProgram({"sh", "-c", "command -v python3"}, Plain()).exit_code != 0) GTEST_SKIP() << "no python3 here";
    environment_ = Plain();
    environment_["LD_LIBRARY_PATH"] = STALLOC_SIMCUDA_DIRECTORY;
    environment_["LD_PRELOAD"] = STALLOC_LIBRARY;
    environment_["STALLOC_SUMMARY"] = "0";
    environment_["STALLOC_PLAN_CACHE"] = "off";
  }
  std::string Run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "python3");
    const Outcome outcome = RunProgram(arguments, environment_);
    return outcome.output + (outcome.exit_code == 0 ? "" : "exit code " + std::to_string(outcome.exit_code));
  }
  std::string Script(const std::string& name, const std::string& argument = "") const {
    std::vector<std::string> command = {std::string(STALLOC_PYTHON_SCRIPTS "/") + name};
    if (!argument.empty()) command.push_back(argument);
    return Run(command);
  }

  Environment environment_;
};

constexpr char kIsThere[] = "import _ctypes, sys; print('_stalloc' in sys.modules)";

TEST_F(Python, HasTheAdapterOnceItImportsAnExtension) {
  EXPECT_EQ(Run({"-c", kIsThere}), "True\n");
  for (const char* option : {"-I", "-E", "-S"}) EXPECT_EQ(Run({option, "-c", kIsThere}), "True\n") << option;
  environment_["STALLOC_DISABLE"] = "1";
  EXPECT_EQ(Run({"-c", kIsThere}), "False\n");
  environment_.erase("LD_PRELOAD");
  EXPECT_EQ(Run({"-c", kIsThere}), "False\n");
}

TEST_F(Python, ItsChildrenHaveItToo) {
  for (const char* method : {"spawn", "fork", "forkserver"})
    EXPECT_EQ(Script("children.py", method), "True True\n") << method;
}

TEST_F(Python, ASubinterpreterIsLeftAlone) { EXPECT_EQ(Script("subinterpreter.py"), "False\nTrue\n"); }

// What the program itself does to imports, and what fails in it, is not touched.
TEST_F(Python, ImportsGoOnAsWithout) {
  const std::string with = Script("imports.py");
  environment_.erase("LD_PRELOAD");
  EXPECT_EQ(with, Script("imports.py"));
}

TEST_F(Python, ADoubleOfPyTorchIsCompleted) {
  environment_["PYTHONPATH"] = STALLOC_PYTHON_SCRIPTS "/fake_torch";
  EXPECT_EQ(Script("statistics.py"), "ok\n");
  EXPECT_EQ(Script("history.py"), "ok\n");
  EXPECT_EQ(Script("pools.py"), "ok\n");
}

// A framework that is otherwise than expected is left as it is.
TEST_F(Python, AnOtherVersionOfItIsLeftAlone) {
  environment_["PYTHONPATH"] = STALLOC_PYTHON_SCRIPTS "/fake_torch";
  environment_["FAKE_TORCH"] = "bare";
  EXPECT_EQ(Run({"-c", "import _ctypes, torch.cuda.memory; print('imported')"}), "imported\n");
}

TEST_F(Python, JaxIsToldAndChildrenAreNot) {
  environment_["PYTHONPATH"] = STALLOC_PYTHON_SCRIPTS "/fake_jax";
  EXPECT_EQ(Script("jax.py"), "cuda_async false None None\n");
  environment_["XLA_PYTHON_CLIENT_ALLOCATOR"] = "platform";
  EXPECT_EQ(Script("jax.py"), "platform false platform None\n");
  environment_["STALLOC_FRAMEWORKS"] = "0";
  EXPECT_EQ(Script("jax.py"), "platform None platform None\n");
}

}  // namespace
}  // namespace stalloc::interpose
