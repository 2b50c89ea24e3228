// What the patterns of kernels.toml make of the names of a trace, looked up once per name.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>

#include "calibrate/import/kineto/trace.h"

namespace plumbline::calibrate {

template <class Value>
class NameMemo {
 public:
  using Lookup = std::function<Value(const std::string&)>;
  NameMemo(const Trace& trace, Lookup lookup) : trace_(trace), lookup_(std::move(lookup)) {}

  const Value& of(std::uint32_t name) {
    const auto found = known_.find(name);
    return found != known_.end() ? found->second : known_.emplace(name, lookup_(trace_.names.text(name))).first->second;
  }

 private:
  const Trace& trace_;
  Lookup lookup_;
  std::unordered_map<std::uint32_t, Value> known_;
};

}  // namespace plumbline::calibrate
