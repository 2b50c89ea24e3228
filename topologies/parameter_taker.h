// Reads the numbers of a parameter file, and of those that it extends, one by one, converts them and collects their
// provenance.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/base/parameter_file.h"
#include "model/base/units.h"

namespace plumbline::topologies {

// Keeps the first error, and all entries that are missing.
class ParameterTaker {
 public:
  // Names in `parameters` get the prefix. No time is longer than `longest_s` seconds.
  ParameterTaker(const model::ParameterFile& file, std::string prefix, std::vector<model::Parameter>& parameters,
                 double longest_s = 1e3)
      : file_(file), prefix_(std::move(prefix)), parameters_(parameters), longest_s_(longest_s) {}

  // Returns the value in SI units. It must be above 0, or from 0 on with may_be_zero; a count must be whole.
  double take(std::string_view name, model::UnitDimension dimension, bool may_be_zero = false);
  std::int64_t count(std::string_view name, bool may_be_zero = false);
  double ratio(std::string_view name, double least = 0, double most = 1e15);  // may be a fraction
  // Returns an amount from 0 on, which may be a fraction; the fallback where the file does not have it.
  double amount(std::string_view name, model::UnitDimension dimension, std::optional<double> fallback = std::nullopt);

  // Returns whether the file has an entry that it may lack, which is a suggestion for unknown ones all the same.
  bool has(std::string_view name) {
    taken_.emplace_back(name);
    return file_.number(name) != nullptr;
  }

  // Returns the first error, or one about all required entries that are missing, or about one that was not taken.
  std::optional<model::Error> finish();

 private:
  double take(std::string_view name, model::UnitDimension dimension, bool may_be_zero, bool whole);
  void fail(std::string_view name, std::string message, std::string hint);

  const model::ParameterFile& file_;
  std::string prefix_;
  std::vector<model::Parameter>& parameters_;
  double longest_s_;
  std::vector<std::string> taken_, missing_;
  std::optional<model::Error> error_;
};

}  // namespace plumbline::topologies
