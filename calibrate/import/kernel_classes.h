// Maps the name of a GPU kernel to its class of work, and an annotation of a trace to its phase. Both maps are data:
// calibrate/kernels.toml, shipped as share/plumbline/kernels.toml.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/error.h"

namespace plumbline::calibrate {

// The class and the comparison row of a kernel that no pattern matches.
inline constexpr std::string_view other_class = "other";

// A class of work: "gemm_fp8" is shown in row "GEMM".
struct KernelClass {
  std::string name;     // "gemm_fp8"
  std::string compare;  // the row in which prediction and measurement are compared: "GEMM"
};

// The meaning of an annotation.
struct PhaseAnnotation {
  std::string phase;        // "F" forward, "B" backward, "I" input gradient, "W" weight gradient
  std::string section;      // the part of a layer or step that it spans: "attention"; may be empty
  bool descending = false;  // its occurrences go through the layers from the last to the first
};

// The layer that an annotation spans.
struct LayerAnnotation {
  std::optional<int> forward, backward;  // its number for work of each direction: 3 of "FSDP::pre_forward (layers.3)"
  bool counted = false;                  // it has none: its occurrences within a pass go through the layers
};

// Operators that follow each other and are one operator of a model.
struct OperatorChain {
  struct Link {
    std::vector<std::string> names;  // of the operator, either of them: "pow", "square"
    bool optional = false;
  };
  std::string forward, gradient;  // classes of its kernels and of those of its backward
  std::vector<Link> links;
  bool residual = false;  // what enters it also goes around it

  // Returns how many of the operators, from the first one on, are the chain; 0 where it does not begin there.
  std::size_t match(std::span<const std::string_view> operators) const;
};

class KernelClasses {  // the patterns of names that determine classes and phases
 public:
  struct State;
  explicit KernelClasses(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  // Returns the class of the first pattern of the file that matches the name; nullptr when none does. Regular
  // expressions are slow: cache the result per name. Only the first 1,024 characters are matched.
  const KernelClass* find(std::string_view kernel_name) const;
  // Returns the class of that name; nullptr when the file does not have it.
  const KernelClass* named(std::string_view class_name) const;
  // Returns the comparison row of the class of that name; "other" when the file does not have it.
  std::string_view compare_row(std::string_view class_name) const;
  // Returns the chains in the order in which they are tried.
  const std::vector<OperatorChain>& chains() const;
  // Returns the phase of an annotation; nullptr when no pattern matches its name.
  const PhaseAnnotation* annotation(std::string_view name) const;
  // Returns the layer that an annotation spans; neither a number nor counted when no pattern matches its name.
  LayerAnnotation layer(std::string_view annotation) const;

 private:
  std::shared_ptr<const State> state_;
};

// Reads the file. Input errors name file, line and key: syntax, unknown keys, a pattern that is no regular expression,
// a class twice, a row that is not listed in `rows`.
model::Result<KernelClasses> load_kernel_classes(const std::string& path);

}  // namespace plumbline::calibrate
