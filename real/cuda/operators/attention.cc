// Fused attention: cuDNN's if it has a plan, else plumbline's own kernels.
#include "real/cuda/kernels/attention/attention.h"

#include "real/cuda/kernels/kernels.h"
#include "real/cuda/operators/cudnn/attention_library.h"
#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {
namespace {

Status check(const model::AttentionAttributes& a, std::int64_t tokens) {
  if (a.dropout > 0) return {"dropout inside fused attention is not executed"};
  if (a.ring_ranks > 1) return {"sequences divided over ranks are not executed"};
  if (tokens % a.sequence_length != 0) return {"the tokens are no whole number of sequences"};
  return {};
}

// Maps the operator's inputs and outputs to the task's tensors.
AttentionTask task_of(const Call& call, bool backward) {
  const auto& a = call.attributes<model::AttentionAttributes>();
  const std::size_t first = backward ? 1 : 0;
  AttentionTask task;
  task.q = call.in(first).view();
  task.k = call.in(first + 1).view();
  task.v = call.in(first + 2).view();
  task.o = backward ? call.in(4).view() : call.out(0).view();
  task.log_sum_exp = static_cast<float*>((backward ? call.in(5) : call.out(1)).view().data);
  if (backward) {
    task.d_o = call.in(0).view();
    task.dq = call.out(0).view();
    task.dk = call.out(1).view();
    task.dv = call.out(2).view();
  }
  task.sequences = task.q.rows / a.sequence_length;
  task.length = a.sequence_length;
  task.query_heads = a.query_heads;
  task.key_value_heads = a.key_value_heads;
  task.query_key_dim = a.query_key_dim;
  task.value_dim = a.value_dim;
  task.window = a.window;
  task.alibi = a.alibi;
  return task;
}

// Returns whether cuDNN's graphs compute this: one 16-bit format for all, and every query sees all earlier tokens.
bool library_takes(const AttentionTask& task, bool backward) {
  const Format format = task.q.format;
  if (format != Format::bf16 && format != Format::fp16) return false;
  if (task.alibi || (task.window > 0 && task.window < task.length)) return false;
  if (task.k.format != format || task.v.format != format) return false;
  if (!backward) return task.o.format == format;
  if (is_float(task.o.format) && task.o.format != format) return false;
  for (const TensorView& x : {task.d_o, task.dq, task.dk, task.dv})
    if (x.format != format) return false;
  return true;
}

AttentionShape shape_of(const AttentionTask& t, bool backward) {
  return {backward, t.q.format, t.sequences, t.length, t.query_heads, t.key_value_heads, t.query_key_dim, t.value_dim};
}

AttentionOperands operands_of(const AttentionTask& t) {
  return {t.q.data, t.k.data, t.v.data, t.o.data, t.log_sum_exp, t.d_o.data, t.dq.data, t.dk.data, t.dv.data};
}

bool own_kernels_take(const AttentionTask& t, bool backward) {
  for (const TensorView& x : {t.q, t.k, t.v})
    if (!is_float(x.format)) return false;
  return (!backward && is_float(t.o.format)) ||
         (is_float(t.d_o.format) && is_float(t.dq.format) && is_float(t.dk.format) && is_float(t.dv.format));
}

constexpr std::int64_t scratch_alignment = 256;  // bytes

// Outputs may be stored in a narrow format until the gradient needs them; they are then widened first.
std::int64_t widened_bytes(const AttentionTask& t) {
  if (is_float(t.o.format)) return 0;
  const std::int64_t bytes = data_bytes(t.q.format, t.o.elements());
  return (bytes + scratch_alignment - 1) / scratch_alignment * scratch_alignment;
}

Status widen(AttentionTask& task, void* memory, cudaStream_t stream) {
  TensorView wide = task.o;
  wide.data = memory;
  wide.scales = nullptr;
  wide.format = task.q.format;
  PLUMBLINE_TRY(outcome(cast(task.o, wide, stream), "widening the output of attention"));
  task.o = wide;
  return {};
}

// Takes scratch memory for `bytes` after the widened outputs, and puts these into the task.
Status prepare(const Call& call, AttentionTask& task, std::int64_t bytes, void*& memory) {
  const std::int64_t wide = widened_bytes(task);
  PLUMBLINE_TRY(call.machine.scratch.take(call.stream, wide + bytes, memory));
  if (wide == 0) return {};
  PLUMBLINE_TRY(widen(task, memory, call.stream));
  memory = static_cast<std::byte*>(memory) + wide;
  return {};
}

Status run(const Call& call, AttentionTask task, bool backward) {
  if (task.sequences == 0) return {};
  void* memory = nullptr;
  Attention* const library = library_takes(task, backward) ? call.machine.attention.get() : nullptr;
  if (library != nullptr) {
    if (AttentionPlan* plan = library->plan(shape_of(task, backward))) {
      PLUMBLINE_TRY(prepare(call, task, library->workspace_bytes(*plan), memory));
      return library->run(*plan, operands_of(task), memory, call.stream);
    }
  }
  if (!own_kernels_take(task, backward)) return {"attention is computed in fp32, bf16 and fp16 alone"};
  if (!backward) return outcome(attention_forward(task, call.stream), "attention");
  const std::int64_t inners = task.sequences * task.length * task.query_heads;
  PLUMBLINE_TRY(prepare(call, task, inners * static_cast<std::int64_t>(sizeof(float)), memory));
  task.inner = static_cast<float*>(memory);
  return outcome(attention_backward(task, call.stream), "the gradient of attention");
}

}  // namespace

Status attention(const Call& call) {
  PLUMBLINE_TRY(check(call.attributes<model::AttentionAttributes>(), call.in(0).rows()));
  for (std::size_t i = 0; i < call.outs(); ++i)
    if (call.out(i).rows() != call.in(0).rows()) PLUMBLINE_TRY(call.out(i).resize(call.in(0).rows()));
  return run(call, task_of(call, false), false);
}

Status attention_grad(const Call& call) {
  PLUMBLINE_TRY(check(call.attributes<model::AttentionAttributes>(), call.in(1).rows()));
  return run(call, task_of(call, true), true);
}

}  // namespace plumbline::real::cuda
