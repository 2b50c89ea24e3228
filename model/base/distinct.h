// Different values in the order in which they come.
#pragma once

#include <algorithm>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

namespace plumbline::model {

// Adds the value where it is not there yet.
template <class Value>
void add_distinct(std::vector<Value>& values, Value value) {
  if (std::ranges::find(values, value) == values.end()) values.push_back(std::move(value));
}

// Returns the different values of a member of the rows, or of a function of them.
template <class Rows, class Of>
auto distinct(const Rows& rows, const Of& of) {
  using Value = std::remove_cvref_t<std::invoke_result_t<Of, decltype(*rows.begin())>>;
  std::vector<Value> values;
  for (const auto& row : rows) add_distinct<Value>(values, std::invoke(of, row));
  return values;
}

}  // namespace plumbline::model
