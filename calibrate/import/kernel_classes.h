// Which class of work a GPU kernel belongs to, by its name, and what an annotation of a trace says about
// its phase. Both are data: calibrate/kernels.toml, shipped as share/plumbline/kernels.toml.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"

namespace plumbline::calibrate {

// The class, and the row of comparisons, of what no pattern matches.
inline constexpr std::string_view other_class = "other";

struct KernelClass {
  std::string name;     // "gemm_fp8"
  std::string compare;  // the row in which prediction and measurement are laid side by side: "GEMM"
};

struct PhaseAnnotation {
  std::string phase;        // "F" forward, "B" backward, "I" input gradient, "W" weight gradient
  std::string section;      // what part of a layer or step it spans: "attention"; may be empty
  bool descending = false;  // its occurrences go through the layers from the last to the first
};

class KernelClasses {
 public:
  struct State;
  explicit KernelClasses(std::unique_ptr<const State> state);
  ~KernelClasses();
  KernelClasses(KernelClasses&& other) noexcept;
  KernelClasses& operator=(KernelClasses&& other) noexcept;

  // The class whose pattern is the first in the file to match the name; nullptr when none does. Slow for many
  // names (regular expressions): remember the answer per name. Only the first 1,024 characters are looked at.
  const KernelClass* find(std::string_view kernel_name) const;
  // The class of that name; nullptr when the file does not have it.
  const KernelClass* named(std::string_view class_name) const;
  // The row of the class of that name; "other" when the file does not have it.
  std::string_view compare_row(std::string_view class_name) const;
  // What an annotation says; nullptr when no pattern matches its name.
  const PhaseAnnotation* annotation(std::string_view name) const;

 private:
  std::unique_ptr<const State> state_;
};

// Reads the file. Input errors with file, line and key: syntax, unknown keys, a pattern that is no regular
// expression, a class twice, a row that is not listed in `rows`.
model::Result<KernelClasses> load_kernel_classes(const std::string& path);

}  // namespace plumbline::calibrate
