// Records of one host or GPU, sorted by the constants that are fitted to them: those of `plumbline measure`, of
// nccl-tests, of traces, and of tables of one's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "model/base/error.h"
#include "model/cost/operator_class.h"
#include "model/profile/cluster.h"
#include "model/profile/profile.h"

namespace plumbline::calibrate {

struct FitRecord {  // one measurement with the values that fits use
  const Measurement* measurement = nullptr;
  model::OperatorKind kind = model::OperatorKind::add;
  model::OperatorClass type = model::OperatorClass::gemm;
  std::string format;  // of the first operand, by which the cost functions choose their constants
  std::string key;     // operator_key, or empty
  // On a host: the cores used. On a GPU: the SMs that a GEMM alone was launched on, the SMs that an all-to-all held,
  // and for all other and all overlapped operators the free SMs.
  std::int64_t cores = 1;
  double seconds = 0;        // of one execution
  double launches = 0;       // kernels of a GEMM, one behind the other; 0: as the cost functions count them
  double alone_seconds = 0;  // of an overlapped one: alone, in turns with it; 0: another record has it

  double extent(std::string_view name) const { return extent_of(*measurement, name); }
};

enum class MachineKind : std::uint8_t { host, gpu };

struct FitRecords {  // all records of one device, by the fit that uses them
  MachineKind machine = MachineKind::host;
  std::string device, clock, date;  // clock: of a host, else empty; date: the latest day, "2026-11-21"
  std::vector<FitRecord> gemms, attention, memory, routers;
  std::vector<FitRecord>
      small_gemms;  // forward GEMMs of few rows, as decoding has them: no form of training is fitted to them
  std::vector<FitRecord> divided;   // of a step, whose bytes are not known or whose format has no form: their times
                                    // count for themselves alone
  std::vector<FitRecord> together;  // expert all-to-alls and collectives of a plan, timed over all ranks of a group
  // Host: GEMMs and attention while other cores copied memory. GPU: all operators while an all-to-all ran.
  std::vector<FitRecord> overlapped;
  std::vector<FitRecord> together_overlapped;  // expert all-to-alls while operators ran
  std::vector<const Measurement*> launches, messages, all_to_alls, collectives;  // not operators of a plan
  // What launches cost the host of a GPU: calls for a kernel, calls for a graph, and from a call to the kernel's end.
  std::vector<const Measurement*> launch_calls, graph_calls, round_trips;
  bool holds_gaps = false;         // of a GPU: whether the times of kernels hold the gaps before them
  std::vector<std::string> notes;  // records that no constant uses
};

// Sorts the records of `clock` ("wall" or "cpu"; empty: the only clock there is, or a GPU's). Of a kernel that a GPU
// ran by itself the time counts with its operands in memory, where it was measured so. Input errors: no record, more
// than one device, more than one clock. The files must outlive what is returned.
model::Result<FitRecords> fit_records(const std::vector<Measurements>& files, const std::string& clock = "");

// The result of a fit to measurements: constants, and the errors of each family of records.
struct FittedFamily {  // the records that one form predicts
  std::string name;
  std::size_t records = 0;
  std::vector<double> errors;  // predicted / measured - 1 of each, in sample
  std::vector<double>
      left_out;                // errors of each record when fitted to the others; empty where too few records are left
  std::vector<double> before;  // errors with the constants of a profile that was refined; else empty
};

struct ProfileFit {
  std::vector<model::Parameter> parameters;  // fitted and measured constants, in the units of `base`
  std::vector<FittedFamily> families;
  std::size_t measured_operators = 0;  // how many of the parameters
  std::vector<std::string> notes;
};

// A profile of a host or a GPU fitted to its measurements: those constants of the cost functions (model/cost/) that the
// records determine. Forms: docs/measuring.md.

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
