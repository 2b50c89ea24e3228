#include "reports/text/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

namespace plumbline::reports {
namespace {

constexpr std::size_t gap = 2;
constexpr std::size_t narrowest = 8;  // a wrapped column stays readable

bool starts_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// Returns the bytes of the first `count` code points.
std::size_t bytes_of(std::string_view text, std::size_t count) {
  std::size_t seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (starts_code_point(text[i]) && seen++ == count) return i;
  }
  return text.size();
}

void trim_right(std::string& line) { line.erase(line.find_last_not_of(' ') + 1); }

}  // namespace

std::vector<Column> columns_of(std::string_view titles) {
  std::vector<Column> columns;
  while (true) {
    const std::size_t bar = titles.find('|');
    std::string title(titles.substr(0, bar));
    title.erase(0, title.find_first_not_of(' '));
    title.erase(title.find_last_not_of(' ') + 1);
    const bool right = title.starts_with('>');
    columns.push_back({title.substr(right ? 1 : 0), right ? Align::right : Align::left});
    if (bar == std::string_view::npos) return columns;
    titles.remove_prefix(bar + 1);
  }
}

std::size_t code_points(std::string_view utf8) {
  return static_cast<std::size_t>(std::count_if(utf8.begin(), utf8.end(), starts_code_point));
}

std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  assert(width > 0);
  std::vector<std::string> lines;
  while (code_points(text) > width) {
    const std::size_t limit = bytes_of(text, width);
    const std::size_t space = text.rfind(' ', limit);
    const bool at_space = space != std::string_view::npos && space > 0;
    lines.emplace_back(text.substr(0, at_space ? space : limit));
    text.remove_prefix(at_space ? space + 1 : limit);
  }
  lines.emplace_back(text);
  return lines;
}

Table::Table(std::string_view titles, std::size_t indent, std::size_t width)
    : Table(columns_of(titles), indent, width) {}

Table::Table(std::vector<Column> columns, std::size_t indent, std::size_t width)
    : columns_(std::move(columns)), indent_(indent), width_(width) {}

void Table::add(std::vector<std::string> cells) {
  assert(cells.size() <= columns_.size());
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

void Table::add_rule() { rows_.emplace_back(); }

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(code_points(column.title));
  for (const Row& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], code_points(row[i]));
  }
  const auto total = [&] {
    return indent_ + std::accumulate(widths.begin(), widths.end(), gap * (columns_.size() - 1));
  };
  while (total() > width_) {
    std::size_t* widest = nullptr;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const bool may_shrink = columns_[i].align == Align::left && widths[i] > narrowest;
      if (may_shrink && (widest == nullptr || widths[i] > *widest)) widest = &widths[i];
    }
    if (widest == nullptr) break;
    --*widest;
  }
  return widths;
}

void Table::append_row(std::string& out, const Row& row, const std::vector<std::size_t>& widths) const {
  std::vector<std::vector<std::string>> cells;
  std::size_t height = 1;
  for (std::size_t i = 0; i < row.size(); ++i) {
    cells.push_back(wrap(row[i], std::max<std::size_t>(widths[i], 1)));
    height = std::max(height, cells.back().size());
  }
  for (std::size_t line_index = 0; line_index < height; ++line_index) {
    std::string line(indent_, ' ');
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line.append(gap, ' ');
      const std::string cell = line_index < cells[i].size() ? cells[i][line_index] : "";
      const std::string padding(widths[i] - std::min(widths[i], code_points(cell)), ' ');
      line += columns_[i].align == Align::right ? padding + cell : cell + padding;
    }
    trim_right(line);
    out += line + '\n';
  }
}

std::string Table::to_string() const {
  const std::vector<std::size_t> column_widths = widths();
  Row titles, rule;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    titles.push_back(columns_[i].title);
    rule.emplace_back(column_widths[i], '-');
  }
  std::string out;
  append_row(out, titles, column_widths);
  append_row(out, rule, column_widths);
  for (const Row& row : rows_) append_row(out, row.empty() ? rule : row, column_widths);
  return out;
}

std::string bold(std::string_view text, Style style) {
  return style.color ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

std::string heading(std::string_view text, Style style) { return fmt::format("\n{}\n", bold(text, style)); }

std::string paragraph(std::string_view text) { return wrapped(text, 2); }

std::string wrapped(std::string_view text, std::size_t indent) {
  std::string out;
  for (const std::string& line : wrap(text, terminal_width - indent)) out += std::string(indent, ' ') + line + '\n';
  return out;
}

std::string section(const TitledTable& table, Style style) {
  Table rows(table.columns);
  for (const std::vector<std::string>& row : table.rows) rows.add(row);
  return (table.title.empty() ? "\n" : heading(table.title, style)) + rows.to_string() +
         (table.note.empty() ? "" : paragraph(table.note));
}

}  // namespace plumbline::reports
