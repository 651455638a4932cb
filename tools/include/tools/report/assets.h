// The files under tools/report, as tools/report/assets.cpp.in embeds them.
#pragma once

#include <string_view>

namespace stalloc::tools::report::assets {

std::string_view Frame();    // page.html
std::string_view Style();    // style.css
std::string_view Scripts();  // all *.js, main.js last
std::string_view Library();  // D3, minified; empty: it was not there when this was built
std::string_view License();  // of D3

}  // namespace stalloc::tools::report::assets
