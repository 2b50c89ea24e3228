// Collects the errors of comparisons and prints them as one table when the program ends.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace plumbline::tests {

class ErrorTable {
 public:
  // Adds the `error` of one tensor that the operator wrote.
  void add(const std::string& operation, const std::string& formats, double error, double tolerance);
  // Adds an operator that reported that it does not compute this case.
  void refuse(const std::string& operation, const std::string& formats, const std::string& reason);
  void print() const;

 private:
  struct Row {
    double error = 0, tolerance = 0;  // those of the tensor with the largest quotient error / tolerance
    std::int64_t tensors = 0, refused = 0;
    std::string reason;  // that of the first refusal
  };
  std::map<std::pair<std::string, std::string>, Row> rows_;
};

// Returns the program's table and registers the environment that prints it.
ErrorTable& error_table();

}  // namespace plumbline::tests
