#include "python_statements.h"

#include <algorithm>

namespace stalloc::interpose {
namespace {

class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  std::vector<PythonStatement> Split() {
    while (at_ < text_.size()) Step(text_[at_]);
    End();
    return std::move(statements_);
  }

 private:
  void Step(char c) {
    if (c == '\n') {
      if (depth_ == 0) End();
      ++line_, ++at_;
    } else if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '\\') {
      SkipLineEnd();
    } else if (c == '"' || c == '\'') {
      const std::size_t begin = at_++, line = line_;
      SkipString(c);
      statement_.push_back({text_.substr(begin, at_ - begin), line});
    } else if (IsPythonWord(c)) {
      std::size_t end = at_;
      while (end < text_.size() && IsPythonWord(text_[end])) ++end;
      // The letters in front of a string literal are a part of it.
      const bool prefix = end < text_.size() && (text_[end] == '"' || text_[end] == '\'') && end - at_ <= 2;
      if (prefix)
        at_ = end;
      else
        Take(end - at_);
    } else if (depth_ == 0 && (c == ';' || c == ':')) {
      End();
      ++at_;
    } else {
      if (c == '(' || c == '[' || c == '{') ++depth_;
      if ((c == ')' || c == ']' || c == '}') && depth_ > 0) --depth_;
      if (c == ' ' || c == '\t' || c == '\r' || c == '\f')
        ++at_;
      else
        Take(1);
    }
  }

  void Take(std::size_t length) {
    statement_.push_back({text_.substr(at_, length), line_});
    at_ += length;
  }

  // A backslash and what ends its line, or the backslash alone.
  void SkipLineEnd() {
    ++at_;
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    if (at_ < text_.size() && text_[at_] == '\n') ++at_, ++line_;
  }

  // From behind the opening quote to behind the closing one. One that is not closed ends with its line.
  void SkipString(char quote) {
    const bool three = text_.substr(at_, 2) == std::string_view(quote == '"' ? "\"\"" : "''");
    if (three) at_ += 2;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n' && !three) return;
      if (c == quote && (!three || text_.substr(at_, 3) == std::string_view(quote == '"' ? "\"\"\"" : "'''"))) {
        at_ += three ? 3 : 1;
        return;
      }
      if (c == '\\' && at_ + 1 < text_.size()) ++at_;  // in raw literals too, a quote behind it does not end them
      if (text_[at_] == '\n') ++line_;
      ++at_;
    }
  }

  void End() {
    if (!statement_.empty()) statements_.push_back(std::move(statement_));
    statement_.clear();
  }

  const std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::size_t depth_ = 0;  // of open brackets
  PythonStatement statement_;
  std::vector<PythonStatement> statements_;
};

// Reads a statement's tokens from one on.
struct Reader {
  const PythonStatement& statement;
  std::size_t next = 0;

  bool Has(std::string_view text) const { return next < statement.size() && statement[next].text == text; }
  bool Skip(std::string_view text) {
    if (!Has(text)) return false;
    ++next;
    return true;
  }
  std::string Name() {
    if (next >= statement.size() || !IsPythonWord(statement[next].text.front())) return {};
    return std::string(statement[next++].text);
  }
  std::string Dotted() {
    std::string dotted;
    while (Skip(".")) dotted += '.';
    if (Has("import")) return dotted;  // from . import x
    dotted += Name();
    while (Skip(".")) dotted += '.' + Name();
    return dotted;
  }
};

}  // namespace

bool IsPythonWord(char c) { return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'); }

std::vector<PythonStatement> StatementsOf(std::string_view text) { return Splitter(text).Split(); }

std::vector<PythonImport> ImportsOf(const PythonStatement& statement) {
  std::vector<PythonImport> imports;
  Reader reader{statement};
  if (reader.Skip("import")) {
    do {
      PythonImport one{reader.Dotted(), {}, {}, statement.front().line};
      one.bound = reader.Skip("as") ? reader.Name() : one.module.substr(0, one.module.find('.'));
      if (!one.module.empty()) imports.push_back(std::move(one));
    } while (reader.Skip(","));
  } else if (reader.Skip("from")) {
    const std::string module = reader.Dotted();
    if (module.empty() || !reader.Skip("import")) return imports;
    if (reader.Skip("*")) return {{module, "*", {}, statement.front().line}};
    reader.Skip("(");
    do {
      const std::size_t line = reader.next < statement.size() ? statement[reader.next].line : 0;
      PythonImport one{module, reader.Name(), {}, line};
      one.bound = reader.Skip("as") ? reader.Name() : one.name;
      if (!one.name.empty()) imports.push_back(std::move(one));  // a comma may come last
    } while (reader.Skip(","));
  }
  return imports;
}

}  // namespace stalloc::interpose
