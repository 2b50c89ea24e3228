#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <unordered_map>

#include "calibrate/import/kineto/detail/enclosing.h"
#include "calibrate/import/kineto/detail/work.h"

namespace plumbline::calibrate {
namespace {

constexpr std::string_view sum_class = "reduce";

// A forward operator that launched kernels.
struct Launcher {
  std::int64_t sequence = -1;
  bool recomputed = false, gemm = false;
  std::string_view purpose;  // class of its kernels; empty: as their names state
};

// The purpose of what the backward of an operator launches.
struct GradientPurpose {
  std::string_view purpose;
  bool ends = false;  // gradients that are added up behind it are no part of the chain
};

class PurposeFinder {
 public:
  PurposeFinder(const Trace& trace, const std::vector<std::size_t>& work, const KernelClasses& classes,
                std::vector<std::string_view>& class_names)
      : trace_(trace), classes_(classes), class_names_(class_names), recorded_(recorded_operations(trace, work)) {}

  void run(const Places& places) {
    list_launchers();
    follow_chains();
    const KernelClass* optimizer = classes_.named("optimizer");
    for (std::size_t i = 0; i < recorded_.size(); ++i) {
      if (!general(i)) continue;
      const std::string_view purpose = places[i].optimizer && optimizer != nullptr ? optimizer->name : purpose_of(i);
      if (!purpose.empty()) class_names_[i] = purpose;
    }
  }

 private:
  // Whether the name of a kernel does not state what it is for.
  bool general(std::size_t i) const {
    const std::string_view row = classes_.compare_row(class_names_[i]);
    constexpr std::string_view also[] = {"index", "dtype_cast"};
    return row == "elementwise" || row == "copy" || row == other_class ||
           std::ranges::find(also, class_names_[i]) != std::end(also);
  }

  // Lists the forward operators in the order of their kernels.
  void list_launchers() {
    constexpr std::string_view library = "aten::";
    launcher_of_.assign(recorded_.size(), no_range);
    std::size_t last = no_range;
    for (std::size_t i = 0; i < recorded_.size(); ++i) {
      if (!recorded_[i].forward) continue;
      const Operation& operation = trace_.operations[recorded_[i].operation];
      if (recorded_[i].operation != last) {
        std::string_view name = trace_.names.text(operation.name);
        if (name.starts_with(library)) name.remove_prefix(library.size());
        names_.push_back(name);
        launchers_.push_back({operation.sequence, recorded_[i].recomputed()});
        last = recorded_[i].operation;
      }
      launchers_.back().gemm = launchers_.back().gemm || class_names_[i].find("gemm") != std::string_view::npos;
      launcher_of_[i] = launchers_.size() - 1;
    }
  }

  void follow_chains() {
    for (std::size_t at = 0; at < names_.size();) {
      std::size_t count = 0;
      for (const OperatorChain& chain : classes_.chains()) {
        count = chain.match(std::span(names_).subspan(at));
        if (count == 0) continue;
        name(chain, at, at + count);
        break;
      }
      // Operators without a gradient have the number of the next one that has one.
      if (count == 0 && !launchers_[at].recomputed) gradients_.erase(launchers_[at].sequence);
      at += count > 0 ? count : 1;
    }
  }

  // Gives the operators of a chain its class, and their gradients and those of what runs between them, such as slices.
  void name(const OperatorChain& chain, std::size_t first, std::size_t end) {
    for (std::size_t at = first; at < end; ++at) {
      Launcher& launcher = launchers_[at];
      if (launcher.gemm) continue;  // what it clears beforehand is the GEMM's
      launcher.purpose = chain.forward;
      const GradientPurpose gradient{chain.gradient, chain.residual && at == first};
      keep(launcher, launcher.sequence, gradient);
      if (at == first || launchers_[at - 1].gemm) continue;
      constexpr std::int64_t most = 16;
      const std::int64_t before = launchers_[at - 1].sequence;
      for (std::int64_t between = before + 1; between < launcher.sequence && between - before < most; ++between)
        keep(launcher, between, gradient);
    }
  }

  // A recomputed operator has no gradient of its own, and its number is counted on another thread.
  void keep(const Launcher& launcher, std::int64_t sequence, const GradientPurpose& gradient) {
    if (launcher.recomputed)
      gradients_.try_emplace(sequence, gradient);
    else
      gradients_[sequence] = gradient;
  }

  std::string_view purpose_of(std::size_t i) const {
    if (launcher_of_[i] != no_range) return launchers_[launcher_of_[i]].purpose;
    const Recorded& recorded = recorded_[i];
    if (recorded.evaluation == no_range) return {};
    const auto found = gradients_.find(trace_.operations[recorded.evaluation].sequence);
    if (found == gradients_.end()) return {};
    // What a step of the backward runs outside of its function sums over broadcast extents, or adds up gradients.
    const bool outside = recorded.operation == recorded.evaluation;
    const bool adds = outside && found->second.ends && class_names_[i] != sum_class;
    return adds ? std::string_view() : found->second.purpose;
  }

  const Trace& trace_;
  const KernelClasses& classes_;
  std::vector<std::string_view>& class_names_;
  std::vector<Recorded> recorded_;
  std::vector<std::size_t> launcher_of_;  // of each piece of work: index into launchers_
  std::vector<std::string_view> names_;   // of launchers_
  std::vector<Launcher> launchers_;
  std::unordered_map<std::int64_t, GradientPurpose> gradients_;  // by the sequence number of the forward operator
};

}  // namespace

void name_purposes(const Trace& trace, const std::vector<std::size_t>& work, const KernelClasses& classes,
                   const Places& places, std::vector<std::string_view>& class_names) {
  PurposeFinder(trace, work, classes, class_names).run(places);
}

}  // namespace plumbline::calibrate
