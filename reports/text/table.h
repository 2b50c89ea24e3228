// Tables, headings and running text for a terminal, with the numbers in them. Names in them may be of foreign files, so
// that control characters are printed as "\x1b" (model::printable).
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::reports {

// Numbers and text for people. No function uses the locale, so that outputs are reproducible.
std::string fixed(double value, int digits);  // 2.50
std::string grouped(double value);            // rounded to an integer: 2,664,000
std::string grouped(std::integral auto value) { return grouped(static_cast<double>(value)); }
std::string number(double value);      // four digits, grouped: 20.00, 1,320, 2,664,000
std::string days_text(double days);    // 55.3, and 0.058 of a fine-tuning of an hour or two; never
std::string duration(double seconds);  // four digits with the fitting unit: 19.93 s, 129.0 ms, 12.00 us
std::string signed_seconds(double seconds, int digits);      // +1.25 s; what rounds to 0 has no minus
std::string gigabytes(double bytes);                         // 1 GB = 1e9 B, one decimal, no unit: 84.9
std::string percent(double fraction);                        // 0.438 -> 43.8 %
std::string signed_percent(double fraction);                 // 0.012 -> +1.2 %
std::string tight_percent(double fraction, int digits = 1);  // 43.8%, in tables of many
std::string signed_tight_percent(double fraction);           // +1.2%
std::string scaled(double value);                            // 14.80 T, 2.664 M, 512
std::string dollars(double value, int digits);               // $0.351, and from a thousand on $1,739
std::string escape_html(std::string_view text);              // for HTML and SVG; control characters become U+FFFD

inline constexpr double tera = 1e12;  // FLOP/s of one TFLOP/s
inline constexpr std::size_t terminal_width = 80;

// Returns the columns that a table or a drawing may take: those of a terminal, or any number where the environment has
// PLUMBLINE_WIDE, which --wide sets.
std::size_t text_width();

enum class Align { left, right };

struct Column {
  std::string title;
  Align align = Align::left;
};

// Returns columns, or cells of a row, one list after the other.
template <class Cell>
std::vector<Cell> with(std::vector<Cell> front, const std::vector<Cell>& rest) {
  front.insert(front.end(), rest.begin(), rest.end());
  return front;
}

// Parses titles between bars; a ">" marks a right-aligned column: "constant | >value | unit".
std::vector<Column> columns_of(std::string_view titles);

// A table with columns two spaces apart and a rule below the header; no line ends in spaces. When the columns are wider
// than text_width(), titles of right-aligned ones wrap at spaces, then left-aligned cells. Where that is not enough the
// table continues below itself, with its first column again. Numbers (right-aligned) are never cut.
class Table {
 public:
  explicit Table(std::string_view titles, std::size_t indent = 2);
  explicit Table(std::vector<Column> columns, std::size_t indent = 2);

  void add(std::vector<std::string> cells);  // missing cells are empty; more cells than columns assert
  // Adds cells that are texts or whole numbers.
  template <class... Cells>
  void row(const Cells&... cells) {
    add({text_of(cells)...});
  }
  bool empty() const { return rows_.empty(); }
  void add_rule();                // a rule across all columns, e.g. before totals
  std::string to_string() const;  // ends in a newline

 private:
  static std::string text_of(std::string_view text) { return std::string(text); }
  static std::string text_of(std::integral auto number) { return std::to_string(number); }

  using Row = std::vector<std::string>;  // an empty row stands for a rule
  struct Block {                         // columns that are printed together
    std::vector<std::size_t> columns, widths;
  };
  struct Widths {  // of a column: with nothing wrapped, and the least
    std::size_t natural = 0, least = 0;
  };
  std::vector<Widths> widths() const;
  bool fits(const Block& block) const;
  void shrink(Block& block, const std::vector<Widths>& widths) const;
  std::vector<Block> blocks() const;
  void append_row(std::string& out, const Row& row, const Block& block) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
  std::size_t indent_;
};

// A table with a heading above it (may be empty) and sentences below it, for outputs that print it and that draw a page
// of it.
struct TitledTable {
  std::string title, columns;  // as Table's
  std::vector<std::vector<std::string>> rows;
  std::string note;
};

std::size_t code_points(std::string_view utf8);

// Breaks text at spaces into lines of at most `width` code points; a longer word is cut.
std::vector<std::string> wrap(std::string_view text, std::size_t width);

// Wraps text to what is left of a line behind `indent` columns, which the first line has already and later ones have as
// blanks. Lines that go on end with `continues`.
std::string hanging(std::string_view text, std::size_t indent, std::string_view continues = "");

// The style of text. The caller sets `color` (bold headings as ANSI escapes) only for a terminal.
struct Style {
  bool color = false;
};

std::string bold(std::string_view text, Style style);     // on the same line
std::string heading(std::string_view text, Style style);  // after an empty line
std::string paragraph(std::string_view text);             // indented by two, at most 80 columns

// Returns the tables that have rows, each after an empty line.
std::string sections(const std::vector<TitledTable>& tables, Style style);

// Wraps text to lines of at most 80 columns, including the indentation.
std::string wrapped(std::string_view text, std::size_t indent = 0);

// Tables as CSV by RFC 4180: a header, a row each line, lines that end in a line feed.

// Return a cell: a number with enough digits to read back the same double, true or false, a text as it is. What was not
// computed is empty.
std::string csv_cell(double value);
std::string csv_cell(const std::optional<double>& value);
template <std::integral Value>
std::string csv_cell(Value value) {
  if constexpr (std::same_as<Value, bool>)
    return value ? "true" : "false";
  else
    return std::to_string(value);
}
inline std::string csv_cell(std::string_view value) { return std::string(value); }

// A table that is written row by row. Columns have the names of the keys of the JSON output, with their units.
class CsvTable {
 public:
  explicit CsvTable(const std::vector<std::string>& columns) { add(columns); }

  void add(const std::vector<std::string>& cells);
  template <class... Cells>
  void row(const Cells&... cells) {
    add({csv_cell(cells)...});
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace plumbline::reports
