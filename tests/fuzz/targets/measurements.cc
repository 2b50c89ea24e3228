// What is measured, and what names it: records, classes of kernels, kernel traces, traces of the PyTorch profiler,
// output of nccl-tests, training logs.
#include "calibrate/chunk/chunk.h"
#include "calibrate/import/kernel_classes.h"
#include "calibrate/import/kineto/import.h"
#include "calibrate/import/printed_files.h"
#include "calibrate/measurement/measurement.h"
#include "tests/fuzz/targets.h"
#include "topologies/topology.h"

namespace plumbline::fuzz {
namespace {

const std::vector<topologies::KnownDevice>& shipped_devices() {
  static const auto devices = topologies::load_devices(in_repository("topologies/devices")).value();
  return devices;
}

const calibrate::KernelClasses& shipped_classes() {
  static const auto classes = calibrate::load_kernel_classes(in_repository("calibrate/kernels.toml")).value();
  return classes;
}

// Records that are read are written in both forms, each of which reads as the same records.
void round_trip(const model::Result<calibrate::Measurements>& records) {
  require_words(records);
  if (!records) return;
  const std::string lines = to_jsonl(*records);
  const auto of_lines = calibrate::parse_measurements(lines, "again.jsonl", {});
  require_read(of_lines);
  require(to_jsonl(*of_lines) == lines, "records change when they are written and read:\n" + lines);
}

}  // namespace

void read_measurement_csv(std::string_view input) {
  round_trip(calibrate::parse_measurements(input, "records.csv", shipped_devices()));
}

void read_measurement_lines(std::string_view input) {
  round_trip(calibrate::parse_measurements(input, "records.jsonl", shipped_devices()));
}

void read_nccl_tests(std::string_view input) { round_trip(calibrate::parse_nccl_tests(input, "nccl-tests.txt")); }

void read_training_log(std::string_view input) {
  model::Plan plan;
  plan.cluster.gpus = 64;
  plan.batch.global_batch_size = 512;
  plan.batch.sequence_length = 8192;
  require_words(calibrate::parse_training_log(input, "train.log", plan));
}

// Patterns are matched against names as traces have them.
void read_kernel_classes(std::string_view input) {
  const auto classes = calibrate::load_kernel_classes(input_file("kernels.toml", input));
  require_words(classes);
  if (!classes) return;
  for (const char* name : {"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>(Params)",
                           "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", ""}) {
    classes->find(name);
    classes->annotation(name);
    classes->layer(name);
  }
}

void read_kernel_trace(std::string_view input) {
  const auto timeline = calibrate::parse_chunk(input, "chunk.csv", shipped_classes());
  require_words(timeline);
  require_words(calibrate::parse_chunk_records(input, "chunk.csv", shipped_classes()));
  if (timeline) require_read(calibrate::parse_chunk(calibrate::to_csv(*timeline, {}), "chunk.csv", shipped_classes()));
}

// The bytes are a trace as it is or compressed, whichever they begin like. What is imported reads as a kernel trace.
void read_kineto(std::string_view input) {
  const auto imported = calibrate::import_kineto(input_file("trace.json", input), shipped_classes(), {});
  require_words(imported);
  if (imported)
    require_read(calibrate::parse_chunk(calibrate::to_csv(imported->timeline, imported->comments), "chunk.csv",
                                        shipped_classes()));
}

}  // namespace plumbline::fuzz
