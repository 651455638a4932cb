// README, the manual page and the program agree: the table of settings, the figures, the verbs.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "runtime/settings.h"
#include "runtime/statistics.h"

namespace stalloc::tools {
namespace {

std::string Text(const std::string& name) {
  std::ifstream file(STALLOC_SOURCE_DIR "/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string Readme() { return Text("README.md"); }

TEST(Readme, HasTheTableOfSettings) {
  const std::string table = runtime::SettingsMarkdown();
  EXPECT_NE(Readme().find(table), std::string::npos) << "README.md must contain this table:\n" << table;
}

TEST(Readme, NamesEveryVerb) {
  const std::string manual = Text("tools/stalloc.1");
  for (const char* verb : {"run", "plan", "show", "replay", "doctor"}) {
    EXPECT_NE(Readme().find(std::string("stalloc ") + verb), std::string::npos) << verb;
    EXPECT_NE(manual.find(std::string("\\fBstalloc ") + verb), std::string::npos) << verb;
    EXPECT_NE(manual.find(std::string(".B ") + verb + "\n"), std::string::npos) << verb;
  }
}

TEST(Manual, HasTheTablesOfSettingsAndFigures) {
  const std::string manual = Text("tools/stalloc.1");
  EXPECT_NE(manual.find(runtime::SettingsManual()), std::string::npos) << "tools/stalloc.1 must contain:\n"
                                                                       << runtime::SettingsManual();
  EXPECT_NE(manual.find(runtime::FiguresManual()), std::string::npos) << "tools/stalloc.1 must contain:\n"
                                                                      << runtime::FiguresManual();
}

}  // namespace
}  // namespace stalloc::tools
