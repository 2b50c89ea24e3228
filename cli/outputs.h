// The forms of a result that a verb writes on demand: --json FILE, --svg -.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>

#include "model/base/error.h"

namespace plumbline::cli {

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
  bool any() const;
  bool to_stdout() const;  // stdout is taken: no text goes there
  // More than one form for stdout is an input error.
  model::Result<void> check() const;
  model::Result<void> write(std::initializer_list<Form> forms) const;

 private:
  std::map<std::string, std::string> paths_;  // by option
};

}  // namespace plumbline::cli
