// Asks llama-server b11192's own code what it makes of chat requests, and how it parses answers to them.
//
// One JSON object a line in, one a line out:
//   {"template": source, "bos": text, "eos": text, "requests": [{"body": a chat request, "answers": [text, ...]}, ...]}
//   {"thinks": true, "requests": [{"params": what the completion is asked with, "answers": [[partly, whole], ...]}, ...]}
// An answer is parsed as part of a stream and as a whole one; each gives {"content", "reasoning_content"}
// with [name, arguments, id] of each call in "tool_calls", or {"error"}. Compiled by `testing.oracles.chat_driver` against the sources and the libraries of the installed reference.

#include "server-common.h"

#include "chat.h"

#include <exception>
#include <iostream>
#include <string>
#include <vector>

static common_json parsed(const common_chat_parser_params & parser, const std::string & answer, bool partly) {
    try {
        const auto message = common_chat_parse(answer, partly, parser);
        common_json result{ { "content", message.content }, { "reasoning_content", message.reasoning_content } };
        auto calls = common_json::array();
        for (const auto & call : message.tool_calls) {
            auto parts = common_json::array();
            parts.push_back(call.name);
            parts.push_back(call.arguments);
            parts.push_back(call.id);
            calls.push_back(parts);
        }
        if (!calls.empty()) {
            result["tool_calls"] = calls;
        }
        return result;
    } catch (const std::exception & error) {
        return common_json{ { "error", std::string(error.what()) } };
    }
}

static common_json answered(server_chat_params & server, const common_json & request) {
    common_json result;
    common_json body = request.at("body");
    common_chat_parser_params parser;
    try {
        std::vector<raw_buffer> files;
        common_json params = oaicompat_chat_params_parse(body, server, files);
        parser.format            = static_cast<common_chat_format>(params.at("chat_format").get<int>());
        parser.generation_prompt = params.at("generation_prompt").get<std::string>();
        if (params.contains("chat_parser")) {
            parser.parser.load(params.at("chat_parser").get<std::string>());
            params.erase("chat_parser");
        }
        result["params"] = params;
    } catch (const std::exception & error) {
        result["error"] = std::string(error.what());
        return result;
    }
    auto answers = common_json::array();
    for (const auto & answer : request.at("answers")) {
        auto both = common_json::array();
        both.push_back(parsed(parser, answer.get<std::string>(), true));
        both.push_back(parsed(parser, answer.get<std::string>(), false));
        answers.push_back(both);
    }
    result["answers"] = answers;
    return result;
}

int main() {
    std::string line;
    while (std::getline(std::cin, line)) {
        const auto asked = common_json::parse(line);
        common_json result;
        try {
            server_chat_params server;
            server.use_jinja = true;
            server.prefill_assistant = true;
            server.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
            server.allow_image = server.allow_audio = server.allow_video = false;
            server.chat_template_kwargs["preserve_reasoning"] = "true";
            server.tmpls = common_chat_templates_init(nullptr, asked.at("template").get<std::string>(),
                                                      asked.at("bos").get<std::string>(), asked.at("eos").get<std::string>());
            server.enable_thinking = common_chat_templates_support_enable_thinking(server.tmpls.get());
            result["thinks"] = server.enable_thinking;
            auto requests = common_json::array();
            for (const auto & request : asked.at("requests")) {
                requests.push_back(answered(server, request));
            }
            result["requests"] = requests;
        } catch (const std::exception & error) {
            result["error"] = std::string(error.what());
        }
        std::cout << result.dump() << std::endl;
    }
    return 0;
}
