// stalloc report: one file that opens offline, in a browser without an error, with the figures of the other verbs.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "command.h"

namespace stalloc::tools {
namespace {

using nlohmann::json;

// What stands in <script id="ID" ...>.
std::string Script(const std::string& page, const std::string& id) {
  const std::string opening = "<script id=\"" + id + "\"";
  const std::size_t element = page.find(opening);
  if (element == std::string::npos) return {};
  const std::size_t begin = page.find('>', element) + 1;
  return page.substr(begin, page.find("</script>", begin) - begin);
}

class ReportVerb : public CommandTest {
 protected:
  void SetUp() override {
    const Ended ended = RunStalloc({"report", Write("probe.csv", SmallTraining(1, 1)), "-o", Path("probe.html")});
    if (ended.errors.find("was built without D3") != std::string::npos) GTEST_SKIP() << ended.errors;
    ASSERT_EQ(ended.exit_code, 0) << ended.errors;
  }

  std::string WriteReport(const std::string& input, const std::string& name) const {
    const Ended ended = RunStalloc({"report", input, "-o", Path(name)});
    EXPECT_EQ(ended.exit_code, 0) << ended.errors;
    return Read(Path(name));
  }
};

TEST_F(ReportVerb, FiguresAreThoseOfShowReplayAndPlan) {
  const std::string input = Write("training.csv", SmallTraining(40, 10));
  const json data = json::parse(Script(WriteReport(input, "report.html"), "data"));
  const json shown = json::parse(RunStalloc({"show", input, "--json"}).output);
  for (const char* figure : {"file", "format", "events", "allocations", "frees", "allocated_bytes", "peak_live_bytes",
                             "live_at_end_bytes", "devices", "streams", "threads", "call_sites"})
    EXPECT_EQ(data.at("show").at(figure), shown.at(figure)) << figure;

  const json replayed = json::parse(RunStalloc({"replay", input, "--json"}).output);
  ASSERT_EQ(data.at("allocators").size(), replayed.size());
  for (std::size_t i = 0; i < replayed.size(); ++i) {
    const json& allocator = data.at("allocators")[i];
    EXPECT_EQ(allocator.at("name"), replayed[i].at("allocator"));
    for (const char* figure : {"peak_reserved_bytes", "planned", "online", "map_calls"})
      EXPECT_EQ(allocator.at(figure), replayed[i].at(figure)) << allocator.at("name") << " " << figure;
    std::uint64_t highest = 0;
    for (const json& bytes : allocator.at("reserved")) highest = std::max(highest, bytes.get<std::uint64_t>());
    EXPECT_EQ(highest, replayed[i].at("peak_reserved_bytes")) << "the curve's top is the peak";
  }
  std::uint64_t highest = 0;
  for (const json& bytes : data.at("live")) highest = std::max(highest, bytes.get<std::uint64_t>());
  EXPECT_EQ(highest, shown.at("peak_live_bytes"));

  const json planned = json::parse(RunStalloc({"plan", input, "--json"}).output);
  for (const char* figure : {"step", "requests", "lower_bound_bytes"})
    EXPECT_EQ(data.at("plan").at("report").at(figure), planned.at(figure)) << figure;

  ASSERT_EQ(data.at("iterations").size(), shown.at("steps").size());
  for (std::size_t i = 1; i < shown.at("steps").size(); ++i) {
    EXPECT_EQ(data.at("iterations")[i].at("alike"), 1.0) << "all steps are the same";
    EXPECT_EQ(data.at("iterations")[i].at("peak_live_bytes"), shown.at("steps")[i].at("peak_live_bytes"));
  }
}

TEST_F(ReportVerb, IterationsThatDifferAreSaidToDiffer) {
  // The second step makes three more of the four requests that the first makes.
  const std::string input = Write("two.csv",
                                  "op,id,bytes,stream,step\na,1,512,0,1\nf,1,512,0,1\na,2,512,0,2\na,3,1024,0,2\n"
                                  "a,4,2048,0,2\na,5,4096,0,2\n");
  const json data = json::parse(Script(WriteReport(input, "report.html"), "data"));
  EXPECT_EQ(data.at("iterations")[1].at("alike"), 0.25);
}

TEST_F(ReportVerb, NothingInTheDataEndsItsScript) {
  const std::string hostile = Write("<!--<script>.csv", SmallTraining(2, 2));
  const json data = json::parse(Script(WriteReport(hostile, "report.html"), "data"));
  EXPECT_EQ(data.at("show").at("file"), hostile);
  EXPECT_EQ(Script(Read(Path("report.html")), "data").find('<'), std::string::npos);
}

TEST_F(ReportVerb, RefusesWhatItCannotWriteOrRead) {
  const std::string input = Write("training.csv", SmallTraining(2, 4));
  WriteReport(input, "report.html");
  const Ended again = RunStalloc({"report", input, "-o", Path("report.html")});
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_NE(again.errors.find("report.html: exists already; --force overwrites it"), std::string::npos);
  EXPECT_EQ(RunStalloc({"report", input, "-o", Path("report.html"), "--force"}).exit_code, 0);
  EXPECT_EQ(RunStalloc({"report", input}).exit_code, 2);
  EXPECT_EQ(RunStalloc({"report", input, "-o", input, "--force"}).exit_code, 2);
  const Ended lifetimes = RunStalloc({"report", Write("l.csv", SmallLifetimes()), "-o", Path("l.html")});
  EXPECT_EQ(lifetimes.exit_code, 3);
  EXPECT_NE(lifetimes.errors.find("a trace is needed"), std::string::npos) << lifetimes.errors;
  const Ended small = RunStalloc({"report", input, "-o", Path("s.html"), "--memory", "2MiB"});
  EXPECT_EQ(small.exit_code, 4);
  EXPECT_NE(small.errors.find("training.csv: event "), std::string::npos) << small.errors;
  EXPECT_FALSE(std::filesystem::exists(Path("s.html")));
}

// The page in a browser: drawn, without a message on the console, and without a request to anywhere; its content policy
// would refuse one, with a message.
class ReportInABrowser : public ReportVerb {
 protected:
  void SetUp() override {
    ReportVerb::SetUp();
    if (IsSkipped()) return;
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"})
      if (browser_.empty() && RunWords({name, "--version"}).exit_code == 0) browser_ = name;
    if (browser_.empty()) GTEST_SKIP() << "no Chromium here: apt-get install chromium";
  }

  // The document as it stands after its scripts have run, with `script` behind them. What is logged is in `errors`.
  Ended Open(const std::string& page, const std::string& script) const {
    const std::size_t end = page.rfind("</body>");
    const std::string path =
        Write("opened.html", page.substr(0, end) + "<script>" + script + "</script>" + page.substr(end));
    return RunWords({browser_, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + Path("profile"),
                     "--enable-logging=stderr", "--virtual-time-budget=20000", "--dump-dom", "file://" + path});
  }

  static std::string Attribute(const std::string& document, const std::string& before, const std::string& name) {
    const std::size_t at = document.find(name + "=\"", document.find(before));
    if (at == std::string::npos) return {};
    const std::size_t begin = at + name.size() + 2;
    return document.substr(begin, document.find('"', begin) - begin);
  }

  std::string browser_;
};

TEST_F(ReportInABrowser, DrawsEveryViewWithoutAMessageAndShowsTheFigures) {
  const std::string input = Write("training.csv", SmallTraining(40, 10));
  const std::string page = WriteReport(input, "report.html");
  // Everything that can be pressed, moved over and turned, and all of it drawn again in another width and theme.
  const Ended ended = Open(page, R"(
    setTimeout(() => {
      const pane = document.querySelector("#map .overlay > rect");
      const box = pane.getBoundingClientRect();
      const at = {clientX: box.left + box.width / 2, clientY: box.bottom - 20, bubbles: true, cancelable: true};
      for (let x = box.left + 5; x < box.right && !(document.body.dataset.mapTip || "").includes("allocated"); x += 9) {
        pane.dispatchEvent(new MouseEvent("mousemove", {...at, clientX: x}));
        document.body.dataset.mapTip = document.getElementById("tip").textContent;
      }
      pane.dispatchEvent(new WheelEvent("wheel", {...at, deltaY: -200}));
      pane.dispatchEvent(new WheelEvent("wheel", {...at, deltaY: -200, shiftKey: true}));
      document.body.dataset.zoomed = map.x.domain().join(" ");
      for (const button of document.querySelectorAll("button")) button.click();
      for (const cell of document.querySelectorAll("#flame g > rect")) cell.dispatchEvent(new MouseEvent("click", at));
      for (const part of document.querySelectorAll("#curves rect, #idle rect, #iterations .bar"))
        part.dispatchEvent(new MouseEvent("mousemove", at));
      document.body.dataset.theme2 = document.documentElement.dataset.theme;
      dispatchEvent(new Event("resize"));
      setTimeout(() => { document.body.dataset.tried = "yes"; }, 1000);
    }, 3000);)");
  ASSERT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_EQ(ended.errors.find("CONSOLE"), std::string::npos) << ended.errors;
  const std::string& document = ended.output;
  EXPECT_EQ(Attribute(document, "<html", "data-ready"), "yes");
  EXPECT_EQ(Attribute(document, "<body", "data-tried"), "yes");
  EXPECT_NE(Attribute(document, "<body", "data-theme2"), "");
  EXPECT_NE(Attribute(document, "<body", "data-map-tip").find("allocated at event"), std::string::npos)
      << Attribute(document, "<body", "data-map-tip");
  EXPECT_EQ(Attribute(document, "id=\"map\"", "data-drawn"), "blocks");
  for (const char* view : {"curves", "idle", "flame", "iterations"}) {
    const std::size_t begin = document.find("id=\"" + std::string(view) + "\"");
    ASSERT_NE(begin, std::string::npos) << view;
    EXPECT_EQ(document.compare(document.find('>', begin) + 1, 4, "<svg"), 0) << view << " is not drawn";
  }

  const json shown = json::parse(RunStalloc({"show", input, "--json"}).output);
  for (const char* figure : {"peak_live_bytes", "allocations", "allocated_bytes", "live_at_end_bytes", "call_sites"}) {
    const std::string element = "data-figure=\"" + std::string(figure) + "\"";
    EXPECT_EQ(Attribute(document, element, "data-value"), shown.at(figure).dump()) << figure;
  }
}

// What the page may load is nothing: an image from elsewhere is refused with a message, by which the test above would
// see it.
TEST_F(ReportInABrowser, AnythingFromElsewhereWouldBeRefusedWithAMessage) {
  const std::string page = WriteReport(Write("training.csv", SmallTraining(2, 4)), "report.html");
  const Ended ended = Open(page, R"(const image = new Image(); image.src = "http://127.0.0.1:9/x.png";)");
  EXPECT_NE(ended.errors.find("CONSOLE"), std::string::npos) << ended.errors;
  EXPECT_NE(ended.errors.find("Content Security Policy"), std::string::npos) << ended.errors;
}

}  // namespace
}  // namespace stalloc::tools
