// Measurements, and a profile that was fitted to them, as text and as pictures.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "calibrate/fit/profile_fit.h"
#include "calibrate/fit/refinement.h"
#include "calibrate/measurement/measurement.h"
#include "reports/charts/charts.h"
#include "topologies/topology.h"

namespace plumbline::reports {

// Returns a heading with the environment of each device, a table per operation with shares of the datasheets' peaks,
// and the failures without a later success.
std::string measurements_text(const calibrate::Measurements& measurements,
                              const std::vector<topologies::KnownDevice>& devices);

// Joins the words that are not empty.
std::string joined(std::initializer_list<std::string> words, const char* separator);

// Returns "4096x24576x1536" for a GEMM, "4 x 8192x4096x7168" for a grouped one, else the extents by name.
std::string shape_text(const calibrate::Subject& subject);
// Returns cache state, cores of a CPU, variant, concurrent copy, and the SMs for which the algorithm was chosen.
std::string variant_text(const calibrate::Measurement& measurement);

// Returns "a CPU, cpu clock"; for a GPU its name alone.
std::string machine_text(const calibrate::FitRecords& records);

// Returns the machine, the number of constants, and a table of the families with the errors of their forms.
std::string fit_text(const calibrate::ProfileFit& fit, const calibrate::FitRecords& records);
std::string fit_csv(const calibrate::ProfileFit& fit);  // a row for each family

// Returns the factors of a stack that was fitted to steps, and the errors of these steps before and after.
std::string stack_fit_text(const calibrate::StackFit& fit, const std::string& base);
std::string stack_fit_csv(const calibrate::StackFit& fit);  // a row for each factor, then one for each step

// Returns what records did to the profile `base`: the errors of their families before and after, and of shapes when the
// others moved the constants; then the constants that moved.
std::string refinement_text(const calibrate::Refinement& refined, const calibrate::FitRecords& records,
                            const std::string& base);
std::string refinement_csv(const calibrate::Refinement& refined);  // a row for each family, then one for each constant

// Returns a table of the families of a GPU's records against the shipped profile of its kind, and the verdict.
std::string gpu_text(const calibrate::GpuComparison& comparison);

// Returns the slowdown of each kernel, its time concurrent with a copy over its time alone, against the copy's SMs.
// GEMMs have panels by the SMs for which their algorithm was chosen (all, or the free ones) and by what partitions the
// SMs. Copies that were paced or went to the host are left out. The time alone is the nearest record in the file of the
// same kernel chosen for all SMs, the earlier of two equally near: clocks drift over a run.
LineChart partition_chart(const calibrate::Measurements& measurements);

// Returns the rate of the kernels of the device with most records against their FLOPs per byte, below the datasheet's
// limits where known, on logarithmic axes. Kernels without FLOPs or bytes, and those concurrent with a copy, are left
// out.
LineChart roofline_chart(const calibrate::Measurements& measurements,
                         const std::vector<topologies::KnownDevice>& devices);

}  // namespace plumbline::reports
