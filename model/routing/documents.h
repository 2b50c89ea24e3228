// Sequences packed of documents whose tokens do not attend to other documents. Documents follow each other and are cut
// where a sequence ends.
#pragma once

#include <cstdint>

#include "model/plan/plan.h"

namespace plumbline::model {

// Returns the mean length in tokens of the document of a token, or 0 where documents fill their sequences: what a token
// attends to without a causal mask. Lengths are those of the plan's file, each as likely, times document_length over
// their mean where that is given; without a file they are exponentially distributed (assumed). The mean is over 4,096
// sequences of a fixed seed, or of 2^24 documents where those hold more, with a standard error of about 1 %.
double document_tokens(const Plan& plan);

// Returns the attention of the sequences of a micro-batch over the expected one; 1 without documents.
double document_attention(const Plan& plan, double expected_tokens, std::uint64_t seed);

}  // namespace plumbline::model
