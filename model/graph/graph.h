// The operator graph of one block (a transformer layer, the embedding, a head ...) in its three phases: F forward, I
// input gradient, W weight gradient; a pass of inference has the first. Cost, memory, simulation and execution all read
// this one graph, so every operator states what it computes on which tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/data_type.h"
#include "model/base/units.h"
#include "model/graph/attributes.h"

namespace plumbline::model {

enum class Phase : std::uint8_t { F, I, W };
// The trace span of an operator. dispatch and combine run on the communication stream.
enum class Section : std::uint8_t { embedding, attention, dispatch, mlp, combine, head, optimizer };

// States what determines a dimension: a constant, the rank's tokens, the distinct tokens that it received for its
// experts, the received tokens of all ranks that share these experts, or its (token, expert) rows, padded per expert.
// The last three vary with routing.
enum class Extent : std::uint8_t { fixed, tokens, received, gathered, rows };
struct Dimension {
  std::int64_t size = 0;  // expected value where routing decides
  Extent extent = Extent::fixed;
};

enum class Role : std::uint8_t {
  activation,  // lives from its writer to its last reader
  input,       // enters from the adjacent block (activation in F, gradient in I)
  parameter,   // trained, or `frozen`
  constant,    // not trained, e.g. the routing bias
  host,        // a part of an activation while it waits in host memory
  gradient,    // gradient of a parameter, accumulated over micro-batches
  cache        // keys and values of a request's tokens, which stay until it ends
};

using TensorId = std::uint32_t;
struct Tensor {
  std::string name;
  std::vector<Dimension> shape;  // shape of the part that one rank holds
  DataType type = DataType::bf16;
  Role role = Role::activation;
  bool expert = false;      // divided over the expert-parallel group (parameters and gradients)
  bool divided = false;     // over the tensor-parallel group (parameters and gradients); else held whole by every rank
  bool shared = false;      // a parameter that another block on the same rank owns (MTP embedding and head)
  std::uint8_t copies = 0;  // of a parameter, in the format of its GEMMs, made once a step and kept
  bool frozen = false;      // a parameter that is not trained: it has no gradient
  std::int64_t chunks = 1;  // parts that are computed and used one after another, of which memory holds one

  double elements() const;
  Bytes bytes() const { return Bytes(elements() * bytes_per_element(type)); }
};

struct Operator {
  OperatorKind kind = OperatorKind::add;
  std::string name;  // e.g. "q_b", unique per phase
  Phase phase = Phase::F;
  Section section = Section::attention;
  std::vector<TensorId> reads;
  std::vector<TensorId> writes;  // `accumulate` kinds also read what they write
  Attributes attributes;
  RecomputeGroup group = RecomputeGroup::none;  // F: recomputing this group drops its outputs
  bool recomputed = false;                      // I: a copy of a forward operator
  bool replayed = false;                        // such a copy that runs before the block's gradients, in forward order
  bool fused = false;                           // part of the kernel of a GEMM: it has no launch and no time of its own
  bool in_place = false;                        // writes its last result over its first operand
};

struct Graph {
  std::string name;  // "moe_layer", "dense_layer", "embedding", "head", "multi_token_prediction"
  std::vector<Tensor> tensors;
  std::vector<Operator> operators;                   // all of F, then all of I, then all of W, each in program order
  bool inference = false;                            // of a pass of inference, whose GEMMs may have few rows
  bool reference = false;                            // of a reference model: F alone, whose ends join only such blocks
  TensorId input = 0, output = 0;                    // activations at the block's ends
  TensorId output_gradient = 0, input_gradient = 0;  // gradients at the block's ends

  const Tensor& tensor(TensorId id) const { return tensors[id]; }
};

std::string_view to_string(Phase phase);
std::string_view to_string(Section section);

// Checks that every operator has its kind's attributes and that every read has a writer before it (or is an input,
// parameter or constant). No activation may be written twice, except by a copy from the host. Returns "" or the
// problem.
std::string check(const Graph& graph);

// Returns for each tensor whether it exists within kernels alone: what operators that are part of a GEMM's kernel read
// of each other or of the GEMM is never in memory. A result that another phase reads too is written there, unless its
// operand is, from which the kernels of that phase compute it again.
std::vector<bool> within_kernels(const Graph& graph);

}  // namespace plumbline::model
