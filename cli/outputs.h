// Where results and errors of a verb go.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>

#include "model/base/error.h"

namespace plumbline::cli {

// "-" is stdout. A file is written under a temporary name in its folder and then renamed, so that an
// interrupted run leaves no half file. Fails (input) when the folder is missing or not writable.
model::Result<void> write_output(const std::string& path_or_dash, const std::string& content);

// Writes to stdout; the exit code 0.
model::Result<int> printed(const std::string& text);

// 1 for wrong input, 2 for infeasible.
int code_of(const model::Error& error);

// Prints the error to stderr and returns its exit code.
int report(const model::Error& error);

// The exit code of a verb, or of its error, which is printed.
int exit_of(const model::Result<int>& done);
int exit_of(const model::Result<void>& done);

// Options that take a file, or - for stdout. The verb keeps references into an object, so it must not move.
class Outputs {
 public:
  struct Form {
    std::string option;
    std::function<std::string()> content;  // is called only where the option is given
  };

  Outputs() = default;
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;

  void add(CLI::App& verb, const std::string& option, const std::string& help);
  bool given(const std::string& option) const { return !paths_.at(option).empty(); }
  bool compressed(const std::string& option) const { return paths_.at(option).ends_with(".gz"); }
  bool any() const;
  bool to_stdout() const;  // stdout is taken: no text goes there
  // More than one form for stdout is an input error.
  model::Result<void> check() const;
  model::Result<void> write(std::initializer_list<Form> forms) const;

 private:
  std::map<std::string, std::string> paths_;  // by option
};

}  // namespace plumbline::cli
