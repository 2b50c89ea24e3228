// Imports a PyTorch-profiler (Kineto) trace as the timeline of one GPU's kernels.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/import/kernel_classes.h"
#include "calibrate/import/kineto/trace.h"
#include "model/base/error.h"
#include "model/result/timeline.h"

namespace plumbline::calibrate {

struct ImportOptions {
  std::optional<int> device;         // default: the device with the most kernels
  Progress progress;                 // may be empty
  std::optional<std::int64_t> step;  // default: of the steps that are whole, the one of median length
};

// A kernel that no pattern of the classes matches.
struct UnknownKernel {
  std::string name;  // the full name
  double seconds = 0;
  std::int64_t count = 0;
};

// The kernels of one device of a trace, of one step where the trace has several.
struct ImportedChunk {
  model::Timeline timeline;           // its kernels in order of start, then stream
  std::vector<std::string> comments;  // for to_csv: the origin and how many kernels have a class and a phase
  // Sentences about what was recognized and by which evidence, and what was not; part of the comments.
  std::vector<std::string> findings;
  std::optional<std::int64_t> step;   // the imported one, where the trace has several
  int device = 0;                     // the imported device
  std::string device_name;            // empty: unknown
  TraceOrigin origin;                 // of the trace; its rank may be that of the file's name
  std::map<int, std::int64_t> found;  // kernels by device, of all devices in the trace
  std::int64_t kernels = 0, copies = 0, with_phase = 0;
  std::vector<UnknownKernel> unknown;  // the longest total time first
};

// Imports a trace. A kernel's phase and layer come from annotations, autograd or the order of kernels, in this order;
// what none of them shows stays unknown. Notes hold section=, pass= (of a chunk in its direction, from 0),
// recomputed=1, m= n= k= groups= of a GEMM whose operator recorded its shapes, and wait_us= with wait= (host,
// communication, dependency) where the stream paused for longer than a launch gap. Input errors: those of read_trace; a
// trace without GPU kernels; a device without any, or with more than 46 days of them; a step that is not there.
model::Result<ImportedChunk> import_kineto(const std::string& path, const KernelClasses& classes,
                                           const ImportOptions& options);

// Formats ImportedChunk::found as "0: 963, 1: 12".
std::string describe_devices(const std::map<int, std::int64_t>& kernels);

// Returns a kernel's name without return type, template arguments and parameters, at most 60 characters, without blanks
// and commas: "void at::native::copy_kernel<4, float>(int)" -> "at::native::copy_kernel".
std::string short_kernel_name(const std::string& name);

// Returns the text as one word of a note: at most 60 characters; blanks, commas and quotes become underscores.
std::string as_word(std::string text);

}  // namespace plumbline::calibrate
