// Files that other programs print: nccl-tests, the logs of training, and benchmarks of servers.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "calibrate/measurement/measurement.h"
#include "model/base/error.h"
#include "model/plan/plan.h"
#include "sim/analysis/measured_step.h"

namespace plumbline::calibrate {

// Lines of what programs print, as launchers and loggers pass them on.

// Visits the lines in order, without ANSI colours and without what launchers and loggers put before them:
// "[1,0]<stdout>:" of mpirun, "3: " of srun, "[rank0]:" of torchrun, "node-1: " of pdsh and kubectl, "(Worker pid=7) "
// of Ray, times, and levels and places in brackets. A carriage return ends a line, as progress bars use it. `number`
// counts lines of the file from 1; `ended` is false only of text behind the last line end, which may have been cut.
void visit_printed_lines(std::string_view text,
                         const std::function<void(std::string_view line, int number, bool ended)>& visit);

// The output of NVIDIA's nccl-tests, or AMD's rccl-tests, as measurements (calibrate/measurement/measurement.h): one
// record per size, out of place and in place, with op = the collective, and shape bytes, ranks and nodes. Nodes are
// NVLink domains: hosts, but on GB200 and GB300 72 GPUs. Text output of version 2.12 and later.

// Parses the output, as launchers pass it on (visit_printed_lines()). Ranks, hosts and device come from the
// "Rank" lines of the heading. The collective comes from the line "Collective test starting", which newer versions
// print, else from the columns where they determine it. Sizes of 0 bytes are left out. Input errors name file and line:
// no rank, no row, a row of other columns, a bandwidth that is not size over time, bus bandwidths of another number of
// ranks, an undetermined collective, jobs that printed at the same time.
model::Result<Measurements> parse_nccl_tests(std::string_view text, const std::string& path);

// Training logs as measured steps (sim/analysis/measured_step.h): what Megatron-LM, Megatron-DeepSpeed,
// Megatron-Bridge, NeMo, torchtitan and DeepSpeed print of each step, as launchers pass it on
// (visit_printed_lines()).

// Returns whether the text has a line of a step.
bool is_training_log(std::string_view text);

// Returns the step of a log: the median of its steps without the first and without those that a pause or warm-up made
// longer, which are further from the median of the second half than 3.5 scaled absolute deviations and than 5 %; the
// largest peak of memory that a rank states; and how much of the log that is. Lines of steps that are cut, or have
// another line inside, are left out and counted. Input errors: no step, or another global batch, sequence length or
// number of GPUs than the plan's, with both numbers.
model::Result<sim::Measurement> parse_training_log(std::string_view text, const std::string& path,
                                                   const model::Plan& plan);

// Returns the mean time per output token that a benchmark of a server found, as `vllm bench serve` and SGLang's
// bench_serving print it, or keep it in JSON. Input errors: none, or several; another mean length or number of requests
// in flight than the plan's, with the keys to set.
model::Result<sim::MeasuredValue> parse_serving_benchmark(std::string_view text, const std::string& path,
                                                          const model::Plan& plan);

}  // namespace plumbline::calibrate
