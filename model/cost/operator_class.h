// Classes of kernels: each has its own rate in a profile and its own row in the breakdown.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/graph/attributes.h"

namespace plumbline::model {

struct Graph;
struct Operator;

enum class OperatorClass : std::uint8_t {
#define OPERATOR_CLASS(name, ...) name,
#include "model/cost/operator_classes.def"
};

inline bool is_gemm(OperatorClass value) {
  return value == OperatorClass::gemm || value == OperatorClass::weight_gradient_gemm;
}

// Returns the class that model/graph/operators.def names for the kind.
OperatorClass class_of(OperatorKind kind);
inline bool is_gemm(OperatorKind kind) { return class_of(kind) == OperatorClass::gemm; }
inline bool is_all_to_all(OperatorKind kind) { return class_of(kind) == OperatorClass::exchange; }
inline bool is_collective(OperatorKind kind) { return class_of(kind) == OperatorClass::collective; }

// Returns the kind's class, or a narrower one that depends on the phase or a number format.
OperatorClass operator_class(const Graph& graph, const Operator& op);

// Returns the class's name in profiles ("cast_e5m6").
std::string_view to_string(OperatorClass value);

// Returns the row of the printed breakdown: "GEMM", "attention", "memory-bound", "router", ...
std::string_view breakdown_name(OperatorClass value);

// Returns all rows that the breakdown of a step may have: kernels by class, then what they wait for.
const std::vector<std::string_view>& breakdown_names();

}  // namespace plumbline::model
