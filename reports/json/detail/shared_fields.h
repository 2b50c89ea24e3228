// Keys of objects that several outputs have.
#pragma once

#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "model/base/provenance.h"
#include "model/memory/memory.h"
#include "model/plan/plan.h"
#include "model/result/result.h"
#include "reports/json/detail/fields.h"

namespace plumbline::reports {

inline std::optional<double> if_finite(double value) { return where(std::isfinite(value), value); }

// Quantiles with their keys also where there are none.
struct QuantilesOrNulls {
  std::optional<model::Quantiles> known;
};
void fields(auto& to, const QuantilesOrNulls& of) {
  const auto quantile = [&of](double model::Quantiles::*which) {
    return of.known ? if_finite((*of.known).*which) : std::nullopt;
  };
  to("p10", "one of ten cases is below", quantile(&model::Quantiles::p10));
  to("p50", "the middle of the cases", quantile(&model::Quantiles::p50));
  to("p90", "nine of ten cases are below", quantile(&model::Quantiles::p90));
}
void fields(auto& to, const model::Quantiles& of) { fields(to, QuantilesOrNulls{of}); }
template <>
inline constexpr std::string_view definition_name<QuantilesOrNulls> = "quantiles";
template <>
inline constexpr std::string_view definition_name<model::Quantiles> = "quantiles";

// Returns the sections and keys of a plan (plan_keys_json.cc, which instantiates it).
template <class Json>
Stated<Json> plan_part(const model::Plan& plan);
// Returns the same, or null where there is none.
template <class Json>
Stated<Json> plan_where(bool known, const model::Plan& plan) {
  return {known ? plan_part<Json>(plan).value : Json(nullptr), or_null(reference<Json>("plan"))};
}

template <>
inline constexpr std::string_view definition_name<model::Evidence> = "evidence";

// What a constant is and where it comes from.
void fields(auto& to, const model::Parameter& of) {
  to("parameter", "dotted name of the constant", of.name);
  to("value", "the value", of.value);
  to("unit", "unit of the value", of.unit);
  to("kind", "", of.kind);
  to("source", "where it is from", of.source);
}
template <>
inline constexpr std::string_view definition_name<model::Parameter> = "constant";

// In addition how much of a step depends on it, where that was computed.
struct ConstantOfStep {
  model::Parameter constant;
  std::optional<double> share_of_step;
};
void fields(auto& to, const ConstantOfStep& of) {
  fields(to, of.constant);
  to("share_of_step", "its share of the step; null: not attributed", of.share_of_step);
  to("relative_uncertainty", "one standard deviation over the value", of.constant.relative_uncertainty);
  to("stack", "the stack that it comes from; null: the profile or the topology", unless_empty(of.constant.stack));
}
template <>
inline constexpr std::string_view definition_name<std::vector<ConstantOfStep>> = "provenance";

// Whether something fits in memory, in words.
inline Word fit_word(std::optional<model::Fit> fit, bool nullable = false) {
  return {
      fit ? std::optional(model::to_string(*fit)) : std::nullopt, {"fits", "at the edge", "does not fit"}, nullable};
}

// Whether something fits in memory, and what is free of it at least.
struct FitInMemory {
  model::Fit fit = model::Fit::fits;
  std::optional<double> probability;
  double free_bytes = 0;
};
void fields(auto& to, const FitInMemory& of) {
  static const std::vector<std::string_view> verdicts = {"fits", "edge", "no"};
  to("verdict", "fits: with 95 % or more; no: with less than 5 %; edge: between them",
     Word{verdicts[static_cast<std::size_t>(of.fit)], verdicts});
  to("probability", "that it fits as clusters run it; null: not drawn", of.probability);
  to("free_bytes", "what is left at least; below 0: what is missing", of.free_bytes);
}
template <>
inline constexpr std::string_view definition_name<std::optional<FitInMemory>> = "fit";

// What a search looked at, of training or of deployments, which have no example.
auto search_of(const auto& search, bool with_example) {
  return Object([&search, with_example](auto& to) {
    to("space", "plans of the space", search.space);
    to("evaluated", "how many were predicted", search.evaluated);
    to("complete", "false: it was interrupted", search.complete);
    to("removed", "what was cut without a prediction, by rule",
       List(search.removed, [with_example](auto& removed_to, const auto& removed) {
         removed_to("rule", "rule that removed them", removed.rule);
         removed_to("plans", "how many were removed", removed.plans);
         if (with_example) removed_to("example", "one of those that were removed", unless_empty(removed.example));
       }));
  });
}

}  // namespace plumbline::reports
