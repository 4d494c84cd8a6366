"""Purpose:  the stock openai package against the service: chat, streams, usage, errors, raw responses.
Owns:     nothing.
Thread:   pytest's.
Lifetime: one test session.
"""
import openai
import pytest

MESSAGES = [{"role": "user", "content": "hello"}]


@pytest.fixture
def client(service):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{service.port}/v1", api_key=service.token, max_retries=0)


def test_models(client):
    models = client.models.list()
    assert [model.id for model in models.data] == ["test"]
    assert models.data[0].object == "model"


def test_chat(client, text):
    answer = client.chat.completions.create(model="test", messages=MESSAGES)
    assert answer.choices[0].message.content == text
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens == 5
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 5


def test_chat_stopped_by_its_limit(client):
    answer = client.chat.completions.create(model="test", messages=MESSAGES, max_tokens=1)
    assert answer.choices[0].message.content == "Hello"
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 1


def test_stream(client, text):
    chunks = list(client.chat.completions.create(model="test", messages=MESSAGES, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == text
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason] == ["stop"]
    assert all(chunk.usage is None for chunk in chunks)
    assert len({chunk.id for chunk in chunks}) == 1


def test_stream_with_usage(client, text):
    plain = client.chat.completions.create(model="test", messages=MESSAGES)
    chunks = list(client.chat.completions.create(model="test", messages=MESSAGES, stream=True,
                                                 stream_options={"include_usage": True}))
    assert chunks[-1].choices == []
    assert chunks[-1].usage.model_dump() == plain.usage.model_dump()
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == text


def test_usage_is_not_sent_when_it_is_not_wanted(client):
    chunks = list(client.chat.completions.create(model="test", messages=MESSAGES, stream=True,
                                                 stream_options={"include_usage": False}))
    assert all(chunk.choices and chunk.usage is None for chunk in chunks)


def test_stream_options_without_a_stream(client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="test", messages=MESSAGES, stream_options={"include_usage": True})
    assert refused.value.param == "stream_options"


def test_wrong_key(service):
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{service.port}/v1", api_key="x" * 40, max_retries=0)
    with pytest.raises(openai.AuthenticationError) as refused:
        client.chat.completions.create(model="test", messages=MESSAGES)
    assert refused.value.code == "invalid_api_key"
    assert refused.value.response.headers["www-authenticate"].startswith("Bearer")


def test_unknown_model(client):
    with pytest.raises(openai.NotFoundError) as refused:
        client.chat.completions.create(model="none", messages=MESSAGES)
    assert refused.value.code == "model_not_found"


@pytest.mark.parametrize("field, value", [("temperature", 2.5), ("top_p", 0), ("n", 2), ("logit_bias", {"1": 1}),
                                          ("stop", ["x"]), ("seed", 1), ("tools", [])])
def test_fields_that_are_refused_are_named(client, field, value):
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="test", messages=MESSAGES, **{field: value})
    assert refused.value.param == field
    assert refused.value.code == "invalid_field"


def test_raw_response(client, text):
    raw = client.chat.completions.with_raw_response.create(model="test", messages=MESSAGES)
    assert raw.status_code == 200
    assert raw.headers["x-request-id"].startswith("req-")
    assert raw.headers["cache-control"] == "no-store"
    assert raw.parse().choices[0].message.content == text


def test_many_calls_on_one_client(client, text):
    for _ in range(50):
        answer = client.chat.completions.create(model="test", messages=MESSAGES)
        assert answer.choices[0].message.content == text
