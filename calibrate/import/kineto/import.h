// The kept part of a PyTorch-profiler (Kineto) trace, in compact records: the work on the GPUs, the calls that launched
// it, and the annotations. Names are indices into a table.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "calibrate/import/kernel_classes.h"
#include "model/base/error.h"
#include "model/result/timeline.h"

namespace plumbline::calibrate {

// A table of texts, each stored once and named by its index.
class Names {
 public:
  Names() = default;
  Names(Names&&) = default;
  Names& operator=(Names&&) = default;
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;

  std::uint32_t number(std::string_view text) {
    if (const auto found = numbers_.find(text); found != numbers_.end()) return found->second;
    const auto next = static_cast<std::uint32_t>(texts_.size());
    numbers_.emplace(texts_.emplace_back(text), next);
    return next;
  }
  const std::string& text(std::uint32_t number) const { return texts_[number]; }
  std::size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  // a deque, so that the views in numbers_ stay valid
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

// A kernel, copy or memory set.
struct GpuWork {
  std::int64_t start_ns = 0, duration_ns = 0;
  std::int64_t correlation = 0;  // of the call that launched it; 0: unknown
  std::int64_t bytes = 0;        // of copies and memory sets
  std::uint32_t name = 0;
  int device = 0, stream = 0;
  int grid = 0, threads = 0;  // CTAs (at most INT_MAX), threads per CTA; 0 for copies
  int registers = 0;          // per thread
  int shared_bytes = 0;       // per CTA
  bool copy = false;

  std::int64_t end_ns() const { return start_ns + duration_ns; }
};

struct LaunchCall {  // a call on the CPU that launched GPU work
  std::int64_t correlation = 0, start_ns = 0;
  std::uint32_t thread = 0;
};

struct Annotation {  // a named range on a CPU thread or a GPU stream
  std::int64_t start_ns = 0, end_ns = 0;
  std::uint32_t name = 0;
  std::uint32_t thread = 0;    // of a CPU annotation
  int device = 0, stream = 0;  // of a GPU annotation
};

// How the name of a step of the backward begins.
inline constexpr std::string_view evaluate_prefix = "autograd::engine::evaluate_function";

// An operator on a CPU thread: one that autograd records, one that multiplies matrices, or a step of the backward.
struct Operation {
  std::int64_t start_ns = 0, end_ns = 0;
  std::int64_t sequence = -1;  // equal for a forward operator and its gradient; -1: none
  std::uint32_t name = 0;
  std::uint32_t dims = 0;  // name of its shapes as in the file, "[[4096, 7168], [7168, 512]]"; 0: not recorded
  std::uint32_t thread = 0;
};

struct TraceDevice {
  std::string name;
  int sms = 0;  // 0: unknown
};

// Where the rank of a trace comes from. A pipeline rank that is given precedes the trace's own rank.
struct TraceOrigin {
  std::optional<std::int32_t> pipeline_rank;
  int rank = -1, world_size = 0;  // of the trace: its GPU among all, and their number; -1 and 0: unknown
  bool of_pipeline = false;       // these count pipeline ranks, as in the traces that plumbline writes
  std::int64_t plan_gpus = 0;     // of the plan of such a trace; 0: unknown
  bool whole_step = false;        // the trace is a step from its beginning to its end; false: it may have been cut
};

struct Trace {
  Names names, threads;
  std::vector<GpuWork> work;
  std::vector<LaunchCall> launches;
  std::vector<Annotation> annotations, gpu_annotations, modules;  // modules: calls of "nn.Module: Block_3"
  std::vector<Operation> operations;
  std::uint64_t events = 0;  // all events read, of any kind

  std::string cut;                     // where the file ends early, as a sentence; empty: it is complete
  std::string name;                    // the profiler's name of the file, without folders; may be empty
  std::map<int, TraceDevice> devices;  // by number; only those that the trace describes
  TraceOrigin origin;                  // as the trace states it
};

// What the patterns of kernels.toml make of the names of a trace, looked up once per name.
template <class Value>
class NameMemo {
 public:
  using Lookup = std::function<Value(const std::string&)>;
  NameMemo(const Trace& trace, Lookup lookup) : trace_(trace), lookup_(std::move(lookup)) {}

  const Value& of(std::uint32_t name) {
    const auto found = known_.find(name);
    return found != known_.end() ? found->second : known_.emplace(name, lookup_(trace_.names.text(name))).first->second;
  }

 private:
  const Trace& trace_;
  Lookup lookup_;
  std::unordered_map<std::uint32_t, Value> known_;
};

// A callback with the bytes of the file read so far and its size (0: unknown).
using Progress = std::function<void(std::uint64_t read, std::uint64_t size)>;

// Reads a trace, .json or .json.gz; memory grows with the GPU's work and the operators of autograd. Of a file that is
// cut off, the complete events are read. Input errors: a file that is missing, empty, a damaged gzip stream or one
// that becomes more than 100 times as large; more than 262,144 different names; those of EventSplitter; events of the
// GPU with missing, negative or unreadable fields.
model::Result<Trace> read_trace(const std::string& path, const Progress& progress);

// Imports a PyTorch-profiler (Kineto) trace as the timeline of one GPU's kernels.

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

// Imports a trace. A kernel's phase and layer come from annotations, else from autograd; what neither shows stays
// unknown until a plan is matched with the trace (calibrate/match). Notes hold section=, pass= (of a chunk in its
// direction, from 0), recomputed=1, m= n= k= groups= of a GEMM whose operator recorded its shapes, and wait_us= with
// wait= (host, communication, dependency) where the stream paused for longer than a launch gap. Input errors: those of
// read_trace; a trace without GPU kernels; a device without any, or with more than 46 days of them; a step that is not
// there.
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
