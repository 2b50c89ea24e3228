// The output of NVIDIA's nccl-tests, or AMD's rccl-tests, as measurements (calibrate/measurement/measurement.h): one
// record per size, out of place and in place, with op = the collective, and shape bytes, ranks and nodes. Nodes are
// NVLink domains: hosts, but on GB200 and GB300 72 GPUs. Text output of version 2.12 and later.
#pragma once

#include <string>
#include <string_view>

#include "calibrate/measurement/measurement.h"
#include "model/base/error.h"

namespace plumbline::calibrate {

// Parses the output, as launchers pass it on (calibrate/import/printed_lines.h). Ranks, hosts and device come from the
// "Rank" lines of the heading. The collective comes from the line "Collective test starting", which newer versions
// print, else from the columns where they determine it. Sizes of 0 bytes are left out. Input errors name file and line:
// no rank, no row, a row of other columns, a bandwidth that is not size over time, bus bandwidths of another number of
// ranks, an undetermined collective, jobs that printed at the same time.
model::Result<Measurements> parse_nccl_tests(std::string_view text, const std::string& path);

}  // namespace plumbline::calibrate
