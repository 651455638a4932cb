// stalloc import and export. The files in data/ were written by PyTorch 2.11 (torch.cuda.memory._dump_snapshot) and by
// RMM 26.10 (LoggingResourceAdaptor).
#include <filesystem>
#include <nlohmann/json.hpp>

#include "command.h"

namespace stalloc::tools {
namespace {

using nlohmann::json;

std::string Data(const std::string& name) { return STALLOC_SOURCE_DIR "/tests/tools/data/" + name; }

class Exchange : public CommandTest {
 protected:
  json Shown(const std::string& path) const { return json::parse(RunStalloc({"show", path, "--json"}).output); }
  std::string Imported(const std::string& from, const std::string& name) const {
    const Ended ended = RunStalloc({"import", from, "-o", Path(name)});
    EXPECT_EQ(ended.exit_code, 0) << ended.errors;
    return Path(name);
  }
};

TEST_F(Exchange, ASnapshotOfPyTorchBecomesATrace) {
  const std::string trace = Imported(Data("torch_snapshot.pickle"), "run.trace");
  const json shown = Shown(trace);
  EXPECT_EQ(shown.at("peak_live_bytes"), 52166656) << "what torch.cuda.max_memory_allocated() said";
  const json& site = shown.at("largest_call_sites")[0];
  EXPECT_NE(site.at("place").get<std::string>().find(".py:"), std::string::npos) << site;
  for (const char* verb : {"plan", "replay"}) EXPECT_EQ(RunStalloc({verb, trace}).exit_code, 0) << verb;
}

TEST_F(Exchange, ALogOfRmmBecomesATrace) {
  const json shown = Shown(Imported(Data("rmm_log.csv"), "run.trace"));
  EXPECT_EQ(shown.at("allocations"), 6);
  EXPECT_EQ(shown.at("frees"), 4);
  EXPECT_EQ(shown.at("peak_live_bytes"), 65536 * 31);
  EXPECT_EQ(shown.at("live_at_end_bytes"), 65536 * 16 + 777);
}

TEST_F(Exchange, APickleThatWouldRunSomethingIsRefused) {
  // os.system("true"), as pickle.dumps makes it of an object with __reduce__.
  constexpr char kCode[] =
      "\x80\x02"
      "cposix\nsystem\nX\x04\x00\x00\x00true\x85R.";
  const std::string bytes(kCode, sizeof kCode - 1);
  const Ended ended = RunStalloc({"import", Write("evil.pickle", bytes), "-o", Path("run.trace")});
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_NE(ended.errors.find("evil.pickle: byte 2: opcode 0x63: this is no plain data"), std::string::npos)
      << ended.errors;
  EXPECT_FALSE(std::filesystem::exists(Path("run.trace")));
}

// At every length, and with every byte changed: a refusal, or a trace.
TEST_F(Exchange, DamagedSnapshotsAreRefusedAndNeverCrash) {
  const std::string whole = Read(Data("torch_snapshot.pickle"));
  for (std::size_t k = 0; k < 60; ++k) {
    const std::size_t at = k * whole.size() / 60;
    const Ended cut = RunStalloc({"import", Write("cut", whole.substr(0, at)), "-o", Path("t"), "--force"});
    EXPECT_EQ(cut.exit_code, 3) << at << cut.errors;
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x55);
    const Ended damaged = RunStalloc({"import", Write("damaged", changed), "-o", Path("t"), "--force"});
    EXPECT_TRUE(damaged.exit_code == 0 || damaged.exit_code == 3) << at << damaged.errors;
  }
}

TEST_F(Exchange, LogsThatCannotBeReadAreRefusedWithTheLine) {
  const std::string log = "Thread,Time,Action,Pointer,Size,Stream\n1,00:46:11.161513,allocate,0x7f,many,0\n";
  const Ended ended = RunStalloc({"import", Write("log.csv", log), "-o", Path("t")});
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_NE(ended.errors.find("log.csv: line 2: "), std::string::npos) << ended.errors;
}

TEST_F(Exchange, WhatIsExportedHoldsTheSame) {
  const std::string trace = Imported(Data("torch_snapshot.pickle"), "run.trace");
  const json shown = Shown(trace);
  const auto exported = [&](const std::string& format) {
    const Ended ended = RunStalloc({"export", trace, "--to", format, "-o", Path(format)});
    EXPECT_EQ(ended.exit_code, 0) << ended.errors;
    return Path(format);
  };
  EXPECT_EQ(Shown(exported("csv")).at("peak_live_bytes"), shown.at("peak_live_bytes"));
  EXPECT_EQ(json::parse(Read(exported("json"))).at("events").size(), shown.at("events"));
  const json again = Shown(Imported(exported("torch-snapshot"), "again.trace"));
  for (const char* figure : {"allocations", "frees", "peak_live_bytes", "live_at_end_bytes", "call_sites"})
    EXPECT_EQ(again.at(figure), shown.at(figure)) << figure;

  std::uint64_t highest = 0;
  const json perfetto = json::parse(Read(exported("perfetto")));
  for (const json& event : perfetto.at("traceEvents"))
    if (event.at("ph") == "C") highest = std::max(highest, event.at("args").at("bytes").get<std::uint64_t>());
  EXPECT_EQ(highest, shown.at("peak_live_bytes"));

  const Ended again_unasked = RunStalloc({"export", trace, "--to", "csv", "-o", Path("csv")});
  EXPECT_EQ(again_unasked.exit_code, 1);
  EXPECT_EQ(RunStalloc({"export", trace, "--to", "magic", "-o", Path("x")}).exit_code, 2);
}

// PyTorch's own viewer reads it, where there is one.
TEST_F(Exchange, PyTorchsViewerOpensWhatIsExported) {
  const Ended where = RunWords(
      {"python3", "-c", "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"});
  if (where.exit_code != 0) GTEST_SKIP() << "no PyTorch here";
  const std::string viewer = where.output.substr(0, where.output.find('\n')) + "/cuda/_memory_viz.py";
  const std::string trace = Imported(Data("torch_snapshot.pickle"), "run.trace");
  ASSERT_EQ(RunStalloc({"export", trace, "--to", "torch-snapshot", "-o", Path("s.pickle")}).exit_code, 0);
  for (const char* kind : {"trace", "stats"}) {
    const Ended opened = RunWords({"python3", viewer, kind, Path("s.pickle")});
    EXPECT_EQ(opened.exit_code, 0) << kind << opened.errors;
    EXPECT_NE(opened.output, "");
  }
}

}  // namespace
}  // namespace stalloc::tools
