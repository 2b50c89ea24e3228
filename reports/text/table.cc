#include "reports/text/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "model/base/text.h"

namespace plumbline::reports {
namespace {

// Returns four significant digits.
std::string four_digits(double value) {
  const double magnitude = std::abs(value);
  if (magnitude >= 999.95) return fixed(value, 0);
  if (magnitude >= 99.995) return fixed(value, 1);
  if (magnitude >= 9.9995) return fixed(value, 2);
  return fixed(value, 3);
}

constexpr std::size_t gap = 2;
constexpr std::size_t longest_word = 32;  // longer words may be cut where a table has no other place

bool starts_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// Returns the bytes of the first `count` code points.
std::size_t bytes_of(std::string_view text, std::size_t count) {
  std::size_t seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (starts_code_point(text[i]) && seen++ == count) return i;
  return text.size();
}

std::size_t widest_word(std::string_view text) {
  std::size_t widest = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    widest = std::max(widest, code_points(word));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
  return widest;
}

std::string with_sign(std::string text) { return text.starts_with('-') ? text : "+" + text; }

}  // namespace

std::string days_text(double days) { return std::isfinite(days) ? fixed(days, days < 1 ? 3 : 1) : "never"; }

std::string fixed(double value, int digits) {
  std::string text = fmt::format("{:.{}f}", value, digits);
  const bool rounds_to_zero = text.starts_with("-0") && text.find_first_of("123456789") == std::string::npos;
  return rounds_to_zero ? text.substr(1) : text;
}

std::string grouped(double value) {
  const std::string digits = fixed(std::abs(value), 0);
  std::string text = value <= -0.5 ? "-" : "";
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string number(double value) {
  const double magnitude = std::abs(value);
  if (magnitude >= 1e12 || (magnitude > 0 && magnitude < 1)) return fmt::format("{:.4g}", value);
  return magnitude >= 999.95 ? grouped(value) : four_digits(value);
}

std::string duration(double seconds) {
  const double magnitude = std::abs(seconds);
  if (magnitude >= 1 || magnitude == 0) return four_digits(seconds) + " s";
  if (magnitude >= 1e-3) return four_digits(seconds * 1e3) + " ms";
  return four_digits(seconds * 1e6) + " us";
}

std::string signed_seconds(double seconds, int digits) { return with_sign(fixed(seconds, digits)) + " s"; }

std::string gigabytes(double bytes) { return fixed(bytes / 1e9, 1); }

std::string percent(double fraction) { return fixed(fraction * 100, 1) + " %"; }

std::string signed_percent(double fraction) { return with_sign(fixed(fraction * 100, 1)) + " %"; }

std::string tight_percent(double fraction, int digits) { return fixed(fraction * 100, digits) + "%"; }

std::string signed_tight_percent(double fraction) { return with_sign(fixed(fraction * 100, 1)) + "%"; }

std::string dollars(double value, int digits) {
  constexpr double cents_end = 1000;
  return "$" + (std::abs(value) < cents_end ? fixed(value, digits) : grouped(value));
}

std::string scaled(double value) {
  struct Unit {
    double factor;
    const char* name;
  };
  static constexpr std::array<Unit, 3> units = {{{1e12, " T"}, {1e9, " B"}, {1e6, " M"}}};
  for (const Unit& unit : units)
    if (std::abs(value) >= unit.factor) return four_digits(value / unit.factor) + unit.name;
  return grouped(value);
}

std::string escape_html(std::string_view text) {
  constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD
  const auto is_no_character_of_xml = [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
  };
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += is_no_character_of_xml(c) ? replacement : std::string_view(&c, 1);
    }
  }
  return out;
}

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

std::string hanging(std::string_view text, std::size_t indent, std::string_view continues) {
  const auto lines = wrap(model::printable(text), terminal_width - indent - continues.size());
  return fmt::format("{}\n", fmt::join(lines, fmt::format("{}\n{:{}}", continues, "", indent)));
}

std::size_t text_width() {
  const char* wide = std::getenv("PLUMBLINE_WIDE");
  constexpr std::size_t unlimited = 1'000'000;
  return wide != nullptr && *wide != '\0' ? unlimited : terminal_width;
}

Table::Table(std::string_view titles, std::size_t indent) : Table(columns_of(titles), indent) {}

Table::Table(std::vector<Column> columns, std::size_t indent) : columns_(std::move(columns)), indent_(indent) {
  for (Column& column : columns_) column.title = model::printable(column.title);
}

void Table::add(std::vector<std::string> cells) {
  assert(cells.size() <= columns_.size());
  for (std::string& cell : cells) cell = model::printable(cell);
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

void Table::add_rule() { rows_.emplace_back(); }

std::vector<Table::Widths> Table::widths() const {
  std::vector<Widths> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    Widths& width = widths.emplace_back(Widths{code_points(column.title), widest_word(column.title)});
    for (const Row& row : rows_) {
      if (row.empty()) continue;
      width.natural = std::max(width.natural, code_points(row[i]));
      const std::size_t needed =
          column.align == Align::right ? code_points(row[i]) : std::min(longest_word, widest_word(row[i]));
      width.least = std::max(width.least, needed);
    }
  }
  return widths;
}

bool Table::fits(const Block& block) const {
  return std::accumulate(block.widths.begin(), block.widths.end(), indent_ + gap * (block.widths.size() - 1)) <=
         text_width();
}

// Titles of numbers wrap first, then left-aligned columns, the widest first.
void Table::shrink(Block& block, const std::vector<Widths>& widths) const {
  for (const Align align : {Align::right, Align::left}) {
    while (!fits(block)) {
      std::size_t* widest = nullptr;
      for (std::size_t i = 0; i < block.columns.size(); ++i) {
        const std::size_t column = block.columns[i];
        const bool may_shrink = columns_[column].align == align && block.widths[i] > widths[column].least;
        if (may_shrink && (widest == nullptr || block.widths[i] > *widest)) widest = &block.widths[i];
      }
      if (widest == nullptr) break;
      --*widest;
    }
  }
}

std::vector<Table::Block> Table::blocks() const {
  const std::vector<Widths> widths = this->widths();
  // A last column in which nothing stands would begin a block of its own where the others fill the line.
  std::size_t count = columns_.size();
  while (count > 1 && widths[count - 1].natural == 0) --count;
  Block all;
  for (std::size_t i = 0; i < count; ++i) {
    all.columns.push_back(i);
    all.widths.push_back(widths[i].natural);
  }
  shrink(all, widths);
  if (fits(all)) return {all};
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < count; ++i) {
    if (!blocks.empty()) {
      Block with = blocks.back();
      with.columns.push_back(i);
      with.widths.push_back(widths[i].least);
      if (fits(with)) {
        blocks.back() = std::move(with);
        continue;
      }
    }
    Block& next = blocks.emplace_back();
    if (i > 0) next = {{0}, {widths[0].least}};
    next.columns.push_back(i);
    next.widths.push_back(widths[i].least);
  }
  for (Block& block : blocks) {
    for (std::size_t i = 0; i < block.columns.size(); ++i) block.widths[i] = widths[block.columns[i]].natural;
    shrink(block, widths);
  }
  return blocks;
}

void Table::append_row(std::string& out, const Row& row, const Block& block) const {
  std::vector<std::vector<std::string>> cells;
  std::size_t height = 1;
  for (std::size_t i = 0; i < block.columns.size(); ++i) {
    cells.push_back(wrap(row[block.columns[i]], std::max<std::size_t>(block.widths[i], 1)));
    height = std::max(height, cells.back().size());
  }
  for (std::size_t line_index = 0; line_index < height; ++line_index) {
    std::string line(indent_, ' ');
    for (std::size_t i = 0; i < block.columns.size(); ++i) {
      if (i > 0) line.append(gap, ' ');
      const std::string cell = line_index < cells[i].size() ? cells[i][line_index] : "";
      const std::string padding(block.widths[i] - std::min(block.widths[i], code_points(cell)), ' ');
      line += columns_[block.columns[i]].align == Align::right ? padding + cell : cell + padding;
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
}

std::string Table::to_string() const {
  std::string out;
  for (const Block& block : blocks()) {
    Row titles, rule(columns_.size());
    for (const Column& column : columns_) titles.push_back(column.title);
    for (std::size_t i = 0; i < block.columns.size(); ++i) rule[block.columns[i]] = std::string(block.widths[i], '-');
    if (!out.empty()) out += '\n';
    append_row(out, titles, block);
    append_row(out, rule, block);
    for (const Row& row : rows_) append_row(out, row.empty() ? rule : row, block);
  }
  return out;
}

std::string bold(std::string_view text, Style style) {
  const std::string shown = model::printable(text);
  return style.color ? fmt::format("\x1b[1m{}\x1b[0m", shown) : shown;
}

std::string heading(std::string_view text, Style style) { return fmt::format("\n{}\n", bold(text, style)); }

std::string paragraph(std::string_view text) { return wrapped(text, 2); }

std::string wrapped(std::string_view text, std::size_t indent) {
  std::string out;
  for (const std::string& line : wrap(model::printable(text), terminal_width - indent))
    out += std::string(indent, ' ') + line + '\n';
  return out;
}

std::string sections(const std::vector<TitledTable>& tables, Style style) {
  std::string out;
  for (const TitledTable& table : tables) {
    if (table.rows.empty()) continue;
    Table rows(table.columns);
    for (const std::vector<std::string>& row : table.rows) rows.add(row);
    out += table.title.empty() ? "\n" : heading(table.title, style);
    out += rows.to_string();
    if (!table.note.empty()) out += paragraph(table.note);
  }
  return out;
}

std::string csv_cell(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

std::string csv_cell(const std::optional<double>& value) { return value ? csv_cell(*value) : ""; }

void CsvTable::add(const std::vector<std::string>& cells) {
  for (const std::string& cell : cells) {
    if (&cell != &cells.front()) text_ += ',';
    text_ += model::csv_field(cell);
  }
  text_ += '\n';
}

}  // namespace plumbline::reports
