// A profile of a host or a GPU fitted to its measurements: those constants of the cost functions (model/cost/) that the
// records determine. Forms: docs/measuring.md.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "calibrate/fit/fit_records.h"
#include "model/base/error.h"
#include "model/profile/cluster.h"
#include "model/profile/profile.h"

namespace plumbline::calibrate {

// Fits the constants. `source` is written into every constant as the origin of its records. `base` is the profile that
// the new one extends; it must have every constant that is fitted.
ProfileFit fit_profile(const FitRecords& records, const model::Profile& base, const std::string& source);

struct ProfileHeading {
  std::string name, description, extends;
  std::vector<std::string> devices = {};  // for which the constants hold; empty: those of `extends`
  std::string stack = {};                 // which people run on the GPU; empty: that of `extends`
  std::vector<std::string> about = {};    // lines of a comment before everything else
};

// Returns the TOML text of a profile with these constants, by section.
std::string profile_text(const ProfileHeading& heading, std::vector<model::Parameter> parameters,
                         const std::vector<model::ConstantFit>& fits = {});

// A GPU against the shipped profile of its kind, family by family: is this GPU normal?

struct ComparedFamily {
  std::string name;  // "GEMMs bf16"
  std::size_t records = 0;
  double median = 0, low = 0, high = 0;  // measured over predicted: the middle, the 10th and the 90th percentile
  double allowed = 0;                    // how far the middle may be from 1
  bool stated = false;                   // whether that is the profile's uncertainty; otherwise it is assumed
  bool normal() const { return median <= 1 + allowed && median >= 1 - allowed; }
};

struct GpuComparison {
  std::string profile;
  std::vector<ComparedFamily> families;
};

// Predicts every record that was taken without a concurrent transfer. A family's allowance is the uncertainty of the
// profile's constants, weighted by their part of the predicted times, and at least 5 %, by which the clocks of GPUs of
// one kind are assumed to differ; where they state none, 10 %. A sweep repeats
// each kernel: where the profile has a power model, GEMMs and attention have the clock that the device's limit leaves
// each of them when it is held. Input errors: a constant that the profile lacks.
model::Result<GpuComparison> compare_gpu(const FitRecords& records, const model::Profile& profile,
                                         const model::Device& device);

}  // namespace plumbline::calibrate
