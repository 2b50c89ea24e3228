#include "calibrate/published_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "calibrate/csv.h"
#include "model/text_file.h"

namespace plumbline::calibrate {
namespace {

using model::Error;
using model::ErrorKind;
using Cells = std::vector<std::string>;

constexpr double microsecond = 1e-6;
constexpr double most = 1e15;  // what a whole number of 64 bits and a double both hold
constexpr std::string_view needed[] = {"id", "kernel", "dtype", "groups", "m", "n", "k", "time_us", "source"};

// Reads line by line; the first error wins.
class ProductsReader {
 public:
  explicit ProductsReader(const std::string& path) : path_(path) {}

  void line(std::string_view text, int number) {
    if (error_ || text.empty() || text.front() == '#') return;
    line_ = number;
    const std::optional<Cells> cells = csv_cells(text);
    if (!cells) return fail("", "a quote does not end on its line");
    if (columns_.empty()) {
      header(*cells);
    } else {
      row(*cells);
    }
  }

  model::Result<std::vector<PublishedProduct>> finish() {
    line_ = 0;
    if (columns_.empty()) fail("", "no header");
    if (error_) return tl::unexpected(*error_);
    return std::move(products_);
  }

 private:
  void header(const Cells& names) {
    for (std::size_t i = 0; i < names.size(); ++i) columns_[names[i]] = i;
    for (const std::string_view name : needed)
      if (!columns_.contains(std::string(name))) fail(name, "the column is missing");
  }

  void row(const Cells& cells) {
    if (cells.size() != columns_.size())
      return fail("", fmt::format("{} cells under {} columns", cells.size(), columns_.size()));
    const auto text = [&](const char* column) { return cells[columns_.at(column)]; };
    const auto number = [&](const char* column) { return positive(column, text(column)); };
    const auto whole = [&](const char* column) { return static_cast<std::int64_t>(number(column)); };
    PublishedProduct row{text("id"), text("kernel"), text("source"), {}, number("time_us") * microsecond};
    row.product = {whole("groups"), whole("m"), whole("n"), whole("k"), model::Precision::fp8, 0};
    // "fp8_e4m3 1x128/128x128 scales -> bf16": the operands' format stands first.
    const std::string dtype = text("dtype");
    const auto type = model::parse_precision(std::string_view(dtype).substr(0, dtype.find_first_of("_ ")));
    if (!type) return fail("dtype", fmt::format("'{}' begins with no known number format", dtype));
    row.product.type = *type;
    products_.push_back(std::move(row));
  }

  double positive(const char* column, const std::string& text) {
    double value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status == std::errc() && end == text.data() + text.size() && value > 0 && value < most) return value;
    fail(column, fmt::format("'{}' is no number above 0", text));
    return 1;
  }

  void fail(std::string_view key, std::string message) {
    if (!error_) error_ = Error{ErrorKind::input, std::move(message), path_, line_, std::string(key), ""};
  }

  const std::string& path_;
  std::map<std::string, std::size_t> columns_;
  std::vector<PublishedProduct> products_;
  int line_ = 0;
  std::optional<Error> error_;
};

}  // namespace

model::Result<std::vector<PublishedProduct>> read_published_products(const std::string& path) {
  const auto text = model::read_text_file(path);
  if (!text) return tl::unexpected(text.error());
  ProductsReader reader(path);
  std::string_view rest = *text;
  for (int number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    reader.line(line, number);
  }
  return reader.finish();
}

}  // namespace plumbline::calibrate
