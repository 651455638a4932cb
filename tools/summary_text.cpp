// SummaryText, declared in tools/summary.h.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "tools/summary.h"
#include "tools/text.h"

namespace stalloc::tools {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kIndent = 2;
constexpr std::size_t kLeastProse = 24;  // columns that a cell of prose gets, or it is left out

bool IsTable(const ordered_json& value) { return value.is_array() && !value.empty() && value.front().is_object(); }

std::string CellText(const std::string& key, const ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "-";
  if (value.is_number_float() && key == "fragmentation") return Format("%.2f %%", 100.0 * value.get<double>());
  if (!value.is_number_unsigned()) return value.dump();
  if (key.ends_with("bytes")) return HumanBytes(value.get<std::uint64_t>());
  return Grouped(value.get<std::uint64_t>());
}

struct Column {
  std::vector<std::string> cells;  // the heading first
  std::size_t width = 0;
  bool prose = false;  // begins at the left, may be cut off at the right; the last of its table

  std::size_t Needs() const { return kIndent + width; }
};

// Which rows are shown; the gap is where the middle is left out.
std::vector<std::size_t> RowsShown(std::size_t count, std::size_t most) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < count; ++i)
    if (most == 0 || count <= most || i < (most + 1) / 2 || i >= count - most / 2) rows.push_back(i);
  return rows;
}

std::vector<Column> ColumnsOf(const ordered_json& rows, const std::vector<std::size_t>& shown) {
  std::vector<Column> columns;
  for (const auto& item : rows.front().items()) {
    if (item.value().is_array()) continue;  // for programs
    Column column;
    column.prose = item.key() == "place";
    column.cells.push_back(item.key());
    for (std::size_t i = 0; i < shown.size(); ++i) {
      if (i > 0 && shown[i] != shown[i - 1] + 1) column.cells.emplace_back("...");
      column.cells.push_back(CellText(item.key(), rows[shown[i]].at(item.key())));
    }
    for (const std::string& cell : column.cells) column.width = std::max(column.width, cell.size());
    columns.push_back(std::move(column));
  }
  return columns;
}

// At most `width` columns of the terminal; an ellipsis counts as one.
std::string CutOff(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 1) + "\u2026";
}

std::string TableOf(const std::vector<const Column*>& columns, std::size_t terminal) {
  std::string text;
  for (std::size_t i = 0; i < columns.front()->cells.size(); ++i) {
    std::string line;
    for (const Column* column : columns) {
      const std::string& cell = column->cells[i];
      line += std::string(kIndent, ' ');
      if (!column->prose) {
        line += std::string(column->width - cell.size(), ' ') + cell;
      } else {
        line += terminal == 0 ? cell : CutOff(cell, terminal - line.size());
      }
    }
    text += line + "\n";
  }
  return text;
}

std::string TableText(const ordered_json& rows, const TextShape& shape) {
  std::vector<Column> columns = ColumnsOf(rows, RowsShown(rows.size(), shape.rows));
  const bool has_prose = std::any_of(columns.begin(), columns.end(), [](const Column& column) { return column.prose; });
  const auto needs = [&] {
    std::size_t sum = 0;
    for (const Column& column : columns)
      sum += column.prose ? std::min(column.Needs(), kIndent + kLeastProse) : column.Needs();
    return sum;
  };
  // A name says where a call site lies; its number is for programs.
  if (has_prose && shape.columns != 0 && needs() > shape.columns)
    std::erase_if(columns, [](const Column& column) { return column.cells.front() == "call_site"; });
  std::string text;
  std::vector<const Column*> line;
  std::size_t width = 0;
  for (const Column& column : columns) {
    const std::size_t least = column.prose ? std::min(column.Needs(), kIndent + kLeastProse) : column.Needs();
    if (shape.columns != 0 && line.size() > 1 && width + least > shape.columns) {
      text += TableOf(line, shape.columns) + "\n";
      line.erase(line.begin() + 1, line.end());
      width = line.front()->Needs();
    }
    line.push_back(&column);
    width += least;
  }
  return text + TableOf(line, shape.columns);
}

}  // namespace

std::string SummaryText(const ordered_json& summary, const TextShape& shape) {
  std::size_t width = 0;
  for (const auto& figure : summary.items()) {
    if (!figure.value().is_array()) width = std::max(width, figure.key().size());
  }
  std::string text;
  for (const auto& figure : summary.items()) {
    if (figure.value().is_array()) continue;
    text += figure.key() + std::string(width - figure.key().size() + 2, ' ') + CellText(figure.key(), figure.value());
    if (figure.key().ends_with("bytes") && figure.value().is_number_unsigned())
      text += "  (" + Grouped(figure.value().get<std::uint64_t>()) + " bytes)";
    text += "\n";
  }
  for (const auto& figure : summary.items()) {
    if (IsTable(figure.value())) text += "\n" + figure.key() + "\n" + TableText(figure.value(), shape);
  }
  return text;
}

}  // namespace stalloc::tools
