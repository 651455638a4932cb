// cmake --install: what lies where, and that it works from there.
#include <sys/stat.h>

#include <filesystem>

#include "command.h"

namespace stalloc::tools {
namespace {

namespace fs = std::filesystem;

class Install : public PreloadedTest {
 protected:
  void SetUp() override {
    PreloadedTest::SetUp();
    if (IsSkipped()) return;
    const Ended ended = RunWords({STALLOC_CMAKE, "--install", STALLOC_BUILD_DIR, "--prefix", Path("tree")});
    ASSERT_EQ(ended.exit_code, 0) << ended.output << ended.errors;
  }
  std::string In(const std::string& name) const { return Path("tree") + "/" + name; }
  static std::string Simulated() { return std::string("LD_LIBRARY_PATH=") + STALLOC_SIMCUDA_LIBRARIES; }
};

TEST_F(Install, EverythingIsInItsPlaceAndNothingElse) {
  const std::string libraries = STALLOC_INSTALL_LIBRARIES;
  for (const std::string& file : std::vector<std::string>{
           "bin/stalloc", libraries + "/libstalloc.so", "share/man/man1/stalloc.1", "share/doc/stalloc/README.md",
           "share/doc/stalloc/LICENSE", "share/doc/stalloc/CHANGELOG.md", "share/doc/stalloc/docs/launchers.md",
           "share/doc/stalloc/docs/settings.md"}) {
    EXPECT_TRUE(fs::is_regular_file(In(file))) << file;
  }
  // Every report that the command writes contains D3.
  if (fs::exists("/usr/share/doc/node-d3/copyright")) {
    EXPECT_TRUE(fs::is_regular_file(In("share/doc/stalloc/d3-copyright")));
  }
  for (const auto& entry : fs::recursive_directory_iterator(Path("tree"))) {
    const std::string path = entry.path().string();
    EXPECT_FALSE(path.ends_with(".a") || path.ends_with(".pyc") || path.find("simtrainer") != std::string::npos)
        << path << " is for the build tree only";
    // A program must not find the simulated device by accident: not beside libstalloc.so, and not to be linked to.
    EXPECT_FALSE(path.find("libcuda") != std::string::npos && path.find("/stalloc/simulated/") == std::string::npos)
        << path;
    EXPECT_FALSE(path.ends_with("libcuda.so") || path.ends_with("libcudart.so")) << path;
  }
}

// From a place that it was moved to, too.
TEST_F(Install, TheCommandFindsItsLibraryAndTheLibraryItsUnwinder) {
  fs::rename(Path("tree"), Path("moved"));
  const Ended ended = RunWords({Path("moved/bin/stalloc"), "run", "--plan-cache=off", "--", STALLOC_SIMTRAINER, "3"},
                               {Simulated(), "LD_DEBUG=files", "LD_DEBUG_OUTPUT=" + Path("loader")});
  ASSERT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_NE(ended.errors.find("peak live"), std::string::npos) << ended.errors;
  std::string loaded;
  for (const auto& entry : fs::directory_iterator(Path("")))
    if (entry.path().filename().string().starts_with("loader.")) loaded += Read(entry.path().string());
  const std::string libraries = Path("moved/") + STALLOC_INSTALL_LIBRARIES;
  EXPECT_NE(loaded.find("calling init: " + libraries + "/libstalloc.so"), std::string::npos);
  if (!fs::exists(libraries + "/stalloc/libunwind.so.8"))
    GTEST_SKIP() << "this build found no libunwind.so.8 to install";
  EXPECT_NE(loaded.find("calling init: " + libraries + "/stalloc/libunwind.so.8"), std::string::npos);
}

// The simulated device that lies in the tree, and no part of the build's.
TEST_F(Install, TheCommandFindsTheSimulatedDevice) {
  fs::rename(Path("tree"), Path("moved"));
  const Ended ended =
      RunWords({Path("moved/bin/stalloc"), "run", "--simulated", "--plan-cache=off", "--", "sh", "-c",
                std::string("echo $LD_PRELOAD $LD_LIBRARY_PATH $PYTHONPATH; ") + STALLOC_SIMTRAINER + " 2"},
               {"LD_DEBUG=files", "LD_DEBUG_OUTPUT=" + Path("loader")});
  ASSERT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_EQ(ended.output.find(STALLOC_BUILD_DIR), std::string::npos) << ended.output;
  EXPECT_EQ(ended.output.find(STALLOC_SOURCE_DIR), std::string::npos) << ended.output;
  std::string loaded;
  for (const auto& entry : fs::directory_iterator(Path("")))
    if (entry.path().filename().string().starts_with("loader.")) loaded += Read(entry.path().string());
  const std::string folder = Path("moved/") + STALLOC_INSTALL_LIBRARIES + "/stalloc/";
  EXPECT_NE(loaded.find("calling init: " + folder + "simulated/libcuda.so.1"), std::string::npos);
  EXPECT_EQ(loaded.find(STALLOC_SIMCUDA_LIBRARIES), std::string::npos);
  EXPECT_TRUE(fs::is_regular_file(folder + "python/simulated/sitecustomize.py"));
}

TEST_F(Install, ThePageIsOneThatManCanShow) {
  if (RunWords({"man", "--version"}).exit_code != 0) GTEST_SKIP() << "no man here";
  const Ended ended = RunWords({"man", "--warnings", "-l", In("share/man/man1/stalloc.1")}, {"MANWIDTH=100"});
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_EQ(ended.errors, "");
  EXPECT_NE(ended.output.find("STALLOC_MEMORY_LIMIT"), std::string::npos);
}

}  // namespace
}  // namespace stalloc::tools
