// The power model of a GPU: the clock that a power limit leaves it, and the energy of its kernels. docs/power.md
// derives it.
#pragma once

#include <array>
#include <limits>
#include <optional>

#include "model/base/error.h"
#include "model/cost/kernel_cost.h"
#include "model/graph/graph.h"
#include "model/profile/profile.h"

namespace plumbline::model {

// The clock is never lowered further than to this share of the highest.
inline constexpr double lowest_clock = 0.3;

struct PowerConstants {       // SI
  double idle = 0;            // W, of a GPU without work
  double limit_share = 1;     // what a GPU at its limit draws, over the limit
  double clock_exponent = 0;  // the energy of a FLOP and of a byte goes with the clock to this power
};

// Kernels over which power is averaged, at the highest clock. Their seconds and joules add up.
struct PowerWindow {
  double sm_seconds = 0;     // of kernels that the SMs bound: they take 1 / clock as long
  double other_seconds = 0;  // of memory, launches: they do not depend on the clock
  double joules = 0;         // of FLOPs and bytes; at a clock r it is r^clock_exponent of this

  PowerWindow& add(const PowerWindow& other, double times = 1);
};

// Returns the mean power of the window in W at a clock that is a share of the highest:
//   idle + joules * clock^clock_exponent / (sm_seconds / clock + other_seconds).
double power_at(const PowerConstants& constants, const PowerWindow& window, double clock);

// Returns the highest clock, from lowest_clock to 1, at which the window draws at most limit_share * limit_w. Power
// rises with the clock, so there is one.
double clock_under(const PowerConstants& constants, const PowerWindow& window, double limit_w);

class PowerModel {
 public:
  // The limit in W of the plan, if it gives one, and what the device has without it (0: unknown, no limit).
  struct Limit {
    std::optional<double> given;
    double usual = 0;
    // An exponent to try in place of power.clock_exponent. Energies belong to their exponent, so those of a window are
    // scaled to draw the same at the usual or reference limit.
    std::optional<double> exponent = std::nullopt;
  };
  // Returns nullopt for a profile without power.idle. It is an input error where a constant is missing (the
  // energy of BF16 GEMMs), and infeasible where the limit is not above power.idle (key cluster.power_limit_w).
  static Result<std::optional<PowerModel>> make(const Profile& profile, const Limit& limit);

  // Returns the window of one operator that takes `time` under conditions with clock 1.
  PowerWindow window(const Graph& graph, const Operator& op, const KernelTime& time) const;

  struct State {
    double clock = 1;   // over the clock that the profile's rates belong to (Conditions::clock)
    double joules = 0;  // of the window, above what an idle GPU draws
  };
  // Where the profile has power.reference_limit, its rates are those of kernels held at that limit: the clock is 1
  // there, and above 1 under a higher limit. Else they are those of bursts at the highest clock.
  State state(const PowerWindow& window) const;

  // Returns what no window's clock exceeds.
  double highest_clock() const;

  double idle() const { return constants_.idle; }      // W
  double limit() const { return limit_; }              // W; infinite where it is unknown
  double usual_limit() const { return usual_limit_; }  // W, without the plan's
  double drawn_at_limit() const { return constants_.limit_share * limit_; }

 private:
  struct Energy {  // J per FLOP of GEMMs
    double forward = 0, weight_gradient = 0;
  };

  PowerConstants constants_;
  std::array<Energy, 32> gemm_;  // by DataType of the operands
  double attention_ = 0;         // J per FLOP
  double byte_ = 0;              // J per byte of kernels that only move bytes
  double gemm_byte_ = 0;         // J per byte of GEMMs and attention
  double limit_ = std::numeric_limits<double>::infinity(), usual_limit_ = limit_;
  std::optional<double> reference_limit_, exponent_;
};

}  // namespace plumbline::model
