// README and the program agree: its table of settings, its verbs and its exit codes.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "runtime/settings.h"

namespace stalloc::tools {
namespace {

std::string Readme() {
  std::ifstream file(STALLOC_SOURCE_DIR "/README.md");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Readme, HasTheTableOfSettings) {
  const std::string table = runtime::SettingsMarkdown();
  EXPECT_NE(Readme().find(table), std::string::npos) << "README.md must contain this table:\n" << table;
}

TEST(Readme, NamesEveryVerb) {
  for (const char* verb : {"run", "plan", "show", "replay", "doctor"}) {
    EXPECT_NE(Readme().find(std::string("stalloc ") + verb), std::string::npos) << verb;
  }
}

}  // namespace
}  // namespace stalloc::tools
