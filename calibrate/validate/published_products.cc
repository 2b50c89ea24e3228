#include "calibrate/validate/published_products.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "calibrate/measurement/csv_table.h"

namespace plumbline::calibrate {
namespace {

constexpr double microsecond = 1e-6;

model::Result<PublishedProduct> product_of(const CsvTable& table, std::size_t row) {
  PublishedProduct published{table.text(row, "id"), table.text(row, "kernel"), table.text(row, "source"), {}, 0};
  ProductQuestion& product = published.product;
  const std::pair<std::string_view, std::int64_t*> sizes[] = {
      {"groups", &product.groups}, {"m", &product.m}, {"n", &product.n}, {"k", &product.k}};
  for (const auto& [column, size] : sizes) {
    const auto value = table.whole(row, column);
    if (!value) return tl::unexpected(value.error());
    *size = *value;
  }
  const auto time = table.positive(row, "time_us");
  if (!time) return tl::unexpected(time.error());
  published.seconds = *time * microsecond;
  // "fp8_e4m3 1x128/128x128 scales -> bf16": the operands' format stands first.
  const std::string_view dtype = table.text(row, "dtype");
  const auto type = model::parse_precision(dtype.substr(0, dtype.find_first_of("_ ")));
  if (!type)
    return tl::unexpected(table.error(row, "dtype", fmt::format("'{}' begins with no known number format", dtype)));
  product.type = *type;
  return published;
}

}  // namespace

model::Result<std::vector<PublishedProduct>> read_published_products(const std::string& path) {
  const auto table = CsvTable::read(path, {"id", "kernel", "dtype", "groups", "m", "n", "k", "time_us", "source"});
  if (!table) return tl::unexpected(table.error());
  std::vector<PublishedProduct> products;
  for (std::size_t row = 0; row < table->rows(); ++row) {
    auto product = product_of(*table, row);
    if (!product) return tl::unexpected(product.error());
    products.push_back(std::move(*product));
  }
  return products;
}

}  // namespace plumbline::calibrate
