// What comparisons found, printed as one table when the program ends.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace plumbline::tests {

class ErrorTable {
 public:
  // `error` of one tensor that the operator wrote.
  void add(const std::string& operation, const std::string& formats, double error, double tolerance);
  // The operator said that it does not compute this.
  void refuse(const std::string& operation, const std::string& formats, const std::string& reason);
  void print() const;

 private:
  struct Row {
    double error = 0, tolerance = 0;  // of the worst tensor: that with the largest quotient
    std::int64_t tensors = 0, refused = 0;
    std::string reason;  // of the first refusal
  };
  std::map<std::pair<std::string, std::string>, Row> rows_;
};

// The program's; the environment that prints it comes with it.
ErrorTable& error_table();

}  // namespace plumbline::tests
