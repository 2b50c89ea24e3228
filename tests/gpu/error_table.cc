#include "tests/gpu/error_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>

namespace plumbline::tests {

void ErrorTable::add(const std::string& operation, const std::string& formats, double error, double tolerance) {
  Row& row = rows_[{operation, formats}];
  // An error that is not a number counts as the worst.
  if (row.tensors++ == 0 || !(error / tolerance <= row.error / row.tolerance)) {
    row.error = error;
    row.tolerance = tolerance;
  }
}

void ErrorTable::refuse(const std::string& operation, const std::string& formats, const std::string& reason) {
  Row& row = rows_[{operation, formats}];
  if (row.refused++ == 0) row.reason = reason;
}

void ErrorTable::print() const {
  if (rows_.empty()) return;
  fmt::print("\n{:<20} {:<14} {:>8} {:>10} {:>10}  {}\n", "operator", "plan", "tensors", "error", "tolerance", "");
  for (const auto& [key, row] : rows_) {
    const bool good = row.error <= row.tolerance;
    std::string verdict = row.tensors == 0 ? "" : good ? "ok" : "WRONG";
    if (row.refused > 0) verdict += fmt::format("  refused {}: {}", row.refused, row.reason);
    fmt::print("{:<20} {:<14} {:>8} {:>10.2e} {:>10.2e}  {}\n", key.first, key.second, row.tensors, row.error,
               row.tolerance, verdict);
  }
  std::fflush(stdout);
}

namespace {

class PrintsTable : public testing::Environment {
 public:
  void TearDown() override { error_table().print(); }
};

[[maybe_unused]] const testing::Environment* const environment =
    testing::AddGlobalTestEnvironment(new PrintsTable);  // GoogleTest deletes it

}  // namespace

ErrorTable& error_table() {
  static ErrorTable table;
  return table;
}

}  // namespace plumbline::tests
