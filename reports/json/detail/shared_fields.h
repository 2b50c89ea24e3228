// Keys of objects that several outputs have.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/provenance.h"
#include "model/memory/memory.h"
#include "model/result/prediction_interval.h"
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
  to("p10", quantile(&model::Quantiles::p10), "one of ten cases is below");
  to("p50", quantile(&model::Quantiles::p50), "the middle of the cases");
  to("p90", quantile(&model::Quantiles::p90), "nine of ten cases are below");
}
void fields(auto& to, const model::Quantiles& of) { fields(to, QuantilesOrNulls{of}); }
template <>
inline constexpr std::string_view definition_name<QuantilesOrNulls> = "quantiles";
template <>
inline constexpr std::string_view definition_name<model::Quantiles> = "quantiles";

// Returns what a function of json.h writes, of the type that has this definition.
template <class Json>
Stated<Json> embedded(std::string_view definition, const std::string& text, bool nullable = false) {
  const Json schema = reference<Json>(definition);
  return {Json::parse(text), nullable ? or_null(schema) : schema};
}

template <>
inline constexpr std::string_view definition_name<model::Evidence> = "evidence";

// What a constant is and where it comes from.
void fields(auto& to, const model::Parameter& of) {
  to("parameter", of.name, "dotted name of the constant");
  to("value", of.value, "the value");
  to("unit", of.unit, "unit of the value");
  to("kind", of.kind, "");
  to("source", of.source, "where it is from");
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
  to("share_of_step", of.share_of_step, "its share of the step; null: not attributed");
  to("relative_uncertainty", of.constant.relative_uncertainty, "one standard deviation over the value");
  to("stack", unless_empty(of.constant.stack), "the stack that it comes from; null: the profile or the topology");
}
template <>
inline constexpr std::string_view definition_name<std::vector<ConstantOfStep>> = "provenance";

// Whether something fits in memory, and what is free of it at least.
struct FitInMemory {
  model::Fit fit = model::Fit::fits;
  std::optional<double> probability;
  double free_bytes = 0;
};
void fields(auto& to, const FitInMemory& of) {
  static const std::vector<std::string_view> verdicts = {"fits", "edge", "no"};
  to("verdict", Word{verdicts[static_cast<std::size_t>(of.fit)], verdicts},
     "fits: with 95 % or more; no: with less than 5 %; edge: between them");
  to("probability", of.probability, "that it fits as clusters run it; null: not drawn");
  to("free_bytes", of.free_bytes, "what is left at least; below 0: what is missing");
}
template <>
inline constexpr std::string_view definition_name<std::optional<FitInMemory>> = "fit";

}  // namespace plumbline::reports
