//! The reference implementation of Harmony as a peer.

use std::hint::black_box;
use std::time::{Duration, Instant};

use logue_bench::{HarmonyPeer, Reading};
use openai_harmony::chat::{Author, Conversation, Message, Role};
use openai_harmony::{
    HarmonyEncoding, HarmonyEncodingName, StreamableParser, load_harmony_encoding,
};
use openchatml::FrameBuf;

#[derive(Clone)]
pub(crate) struct Harmony {
    encoding: HarmonyEncoding,
    loading: Duration,
}

impl Harmony {
    pub(crate) fn load() -> Result<Self, String> {
        let started = Instant::now();
        let encoding = load_harmony_encoding(HarmonyEncodingName::HarmonyGptOss);
        let encoding = encoding.map_err(|error| format!("{error:#}"))?;
        Ok(Self {
            encoding,
            loading: started.elapsed(),
        })
    }

    pub(crate) fn encode_ordinary(&self, text: &str) -> usize {
        self.encoding.tokenizer().encode_ordinary(text).len()
    }

    fn parser(&self) -> Result<StreamableParser, String> {
        StreamableParser::new(self.encoding.clone(), None).map_err(|error| error.to_string())
    }
}

impl HarmonyPeer for Harmony {
    fn name(&self) -> &'static str {
        "openai-harmony"
    }

    fn loading(&self) -> Duration {
        self.loading
    }

    fn create(&self) {
        drop(black_box(self.parser()));
    }

    fn stream(&self, ids: &[u32], reading: Reading) -> Result<usize, String> {
        let mut parser = self.parser()?;
        let mut told = 0;
        for id in ids {
            parser.process(*id).map_err(|error| error.to_string())?;
            let text = match reading {
                Reading::Delta => parser.last_content_delta(),
                Reading::Whole => parser.current_content().map(Some),
            };
            told += black_box(text.ok().flatten()).map_or(0, |text| text.len());
        }
        Ok(told)
    }

    fn stream_in_steps(&self, ids: &[u32], step: &mut dyn FnMut()) -> Result<(), String> {
        let mut parser = self.parser()?;
        for id in ids {
            parser.process(*id).map_err(|error| error.to_string())?;
            drop(black_box(parser.last_content_delta()));
            step();
        }
        Ok(())
    }

    fn decode(&self, ids: &[u32]) -> usize {
        let bytes = self.encoding.tokenizer().decode_bytes(ids);
        bytes.map_or(0, |bytes| bytes.len())
    }

    fn renderer<'p>(&'p self, frames: &[FrameBuf]) -> Option<Box<dyn Fn() -> usize + 'p>> {
        let messages: Option<Vec<Message>> = frames.iter().map(message).collect();
        let conversation = Conversation::from_messages(messages?);
        let render = move || {
            let ids = self.encoding.render_conversation(&conversation, None);
            ids.map_or(0, |ids| ids.len())
        };
        Some(Box::new(render))
    }
}

fn message(frame: &FrameBuf) -> Option<Message> {
    let author = match frame.role {
        openchatml::FrameRole::System => Role::System.into(),
        openchatml::FrameRole::Developer => Role::Developer.into(),
        openchatml::FrameRole::User => Role::User.into(),
        openchatml::FrameRole::Assistant => Role::Assistant.into(),
        openchatml::FrameRole::Tool => Author::new(Role::Tool, frame.name.clone()?),
        openchatml::FrameRole::Other => return None,
    };
    let mut message = Message::from_author_and_content(author, frame.body.as_str());
    message.channel = frame
        .channel
        .and_then(openchatml::Channel::as_str)
        .map(str::to_owned);
    message.recipient = frame.to.clone();
    message.content_type = frame
        .constrain
        .as_ref()
        .map(|word| format!("<|constrain|>{word}"));
    Some(message)
}
