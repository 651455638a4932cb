// Python's source as far as its imports and names go: statements of tokens, without comments, and with each string
// literal as one token. No parser: what is no Python gives statements without a meaning, and no error.
//
// Any thread; allocates.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace stalloc::interpose {

// A name or a number, a string literal with its quotes and without the letters before them, or one other character.
struct PythonToken {
  std::string_view text;  // a part of the source
  std::size_t line;       // where it begins, from 1
};
using PythonStatement = std::vector<PythonToken>;

// Letters, digits and the underscore: what names and numbers are made of.
bool IsPythonWord(char c);

// Statements end with their line, unless a bracket is open or a backslash stands there, and at a semicolon or a colon
// outside brackets.
std::vector<PythonStatement> StatementsOf(std::string_view text);

// What one name of an import statement stands for.
struct PythonImport {
  std::string module;  // "a.b", of "from .b" with its dots
  std::string name;    // of the module: behind "from a.b import"; "*" is all of them. Empty: the module itself
  std::string bound;   // the name that the file has it under; empty for "*"
  std::size_t line;
};

// The imports that a statement makes; none if it is another one.
std::vector<PythonImport> ImportsOf(const PythonStatement& statement);

}  // namespace stalloc::interpose
