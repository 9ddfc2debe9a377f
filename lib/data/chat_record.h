#pragma once
// Conversations out of JSON lines, in the layouts people keep them in.
//
//   messages       OpenAI: {"messages": [{"role": "user", "content": "..."}, ...]}; every system message begins a new
//                  conversation, so a line may hold several
//   conversations  ShareGPT: {"conversations": [{"from": "human", "value": "..."}, ...]}; an empty system message is
//                  put in front where there is none, and an unknown speaker is the user
//   instruction    Alpaca and Dolly: one of instruction, prompt, query, question, one of output, response, completion,
//                  answer, and optionally input or context, which follows the instruction after an empty line; an empty
//                  system message stands in front
// The first that a line's keys fit counts, in this order; of two equal keys the last.
// Source: facts of Megatron-LM core 0.20 (SFTDataset, VarlenDataset).
// Code: data/chat_record.cc. Tests: tests/data/sft_dataset_test.cc.

#include <string>
#include <string_view>
#include <vector>

#include "data/prompt_format.h"

namespace mt::data {

// The conversations of one line.
//   gives  at least one, each of at least one message; roles in lower case
//   fails  Error{data} with `where`: no JSON, none of the layouts, a role that is none of system, user, assistant and
//          tool, a content that is no string (images and the like), an empty answer, an answer that follows neither the
//          user nor a tool
std::vector<Conversation> read_conversations(std::string_view line, const std::string& where);

}  // namespace mt::data
