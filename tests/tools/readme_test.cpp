// The documents, the manual page and the program agree: the table of settings, the figures, the verbs. What does not is
// printed as it should be.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "runtime/base/settings.h"

namespace stalloc::tools {
namespace {

std::string Text(const std::string& name) {
  std::ifstream file(STALLOC_SOURCE_DIR "/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string Readme() { return Text("README.md"); }

// The settings as a table in Markdown.
std::string SettingsMarkdown() {
  std::string table = "| variable | value | default | what it does |\n|---|---|---|---|\n";
  for (const runtime::SettingDescription& row : runtime::DescribeSettings()) {
    std::string form;
    for (char c : row.form) form.append(c == '|' ? "\\|" : std::string(1, c));  // a bare | would end the cell
    table.append("| `").append(row.name).append("` | `").append(form).append("` | ");
    if (!row.default_value.empty()) table.append("`").append(row.default_value).append("`");
    table.append(" | ").append(row.sentence).append(" |\n");
  }
  return table;
}

// The settings as roff.
std::string SettingsManual() {
  std::string text;
  for (const runtime::SettingDescription& row : runtime::DescribeSettings()) {
    text.append(".TP\n\\fB").append(row.name).append("\\fR=\\fI").append(row.form).append("\\fR\n");
    text.append(row.sentence);
    if (!row.default_value.empty()) text.append(" Default: ").append(row.default_value).append(".");
    text += '\n';
  }
  return text;
}

// The figures of the statistics as roff.
std::string FiguresManual() {
  std::string text;
#define STALLOC_DEVICE_FIGURE(member, value, sentence) text.append(".TP\n.B " #member "\n" sentence "\n");
#define STALLOC_PROCESS_FIGURE(member, sentence) text.append(".TP\n.B " #member "\n" sentence " (of the process)\n");
#include "runtime/service/statistics.def"
#undef STALLOC_DEVICE_FIGURE
#undef STALLOC_PROCESS_FIGURE
  return text;
}

TEST(Settings, HasTheTable) {
  const std::string table = SettingsMarkdown();
  EXPECT_NE(Text("docs/settings.md").find(table), std::string::npos) << "docs/settings.md must contain this table:\n"
                                                                     << table;
}

TEST(Readme, NamesEveryVerb) {
  const std::string manual = Text("tools/stalloc.1");
  for (const char* verb : {"run", "fit", "plan", "show", "replay", "report", "import", "export", "doctor"}) {
    EXPECT_NE(Readme().find(std::string("stalloc ") + verb), std::string::npos) << verb;
    EXPECT_NE(manual.find(std::string("\\fBstalloc ") + verb), std::string::npos) << verb;
    EXPECT_NE(manual.find(std::string(".B ") + verb + "\n"), std::string::npos) << verb;
  }
}

TEST(Manual, HasTheTablesOfSettingsAndFigures) {
  const std::string manual = Text("tools/stalloc.1");
  EXPECT_NE(manual.find(SettingsManual()), std::string::npos) << "tools/stalloc.1 must contain:\n" << SettingsManual();
  EXPECT_NE(manual.find(FiguresManual()), std::string::npos) << "tools/stalloc.1 must contain:\n" << FiguresManual();
}

}  // namespace
}  // namespace stalloc::tools
