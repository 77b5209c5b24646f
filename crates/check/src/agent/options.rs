//! Scenarios of modes, options and logins, of what was not offered, and of the end.

use super::Stage;
use crate::peer::{END, Stop, is_ok};
use crate::report::items;
use crate::sheet::Verdict;
use crate::state::OPTIONAL;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tieline_schema::{Dialect, find};

impl Stage {
    pub(super) async fn options(&mut self) -> Result<(), Stop> {
        let setup = self.ready().await?;
        match setup["modes"]["availableModes"].as_array() {
            Some(modes) if self.dialect == Dialect::V1 => {
                // Some may be refused, in a folder that is not trusted for example. Back to the first in the end.
                let (mut set, mut failed) = (false, String::new());
                for mode in modes.iter().chain(modes.first()) {
                    let reply = self.peer()?.call_in("session/set_mode", json!({"modeId": mode["id"]})).await?;
                    set |= is_ok(&reply);
                    failed = format!("{}: {}", mode["id"], reply["error"]);
                }
                self.expect("mode-set", set, || failed);
                let unknown = json!({"modeId": "tieline-check-no-such-mode"});
                let reply = self.peer()?.call_in("session/set_mode", unknown).await?;
                self.expect_refusal("mode-unknown", &reply, None);
            }
            _ => self.leave(&["mode-set", "mode-unknown"], Verdict::NotApplicable, "the session has no modes"),
        }
        let key = if self.dialect == Dialect::V2 { "configId" } else { "id" };
        let all = items(&setup["configOptions"]);
        if let Some(option) = all.iter().find(|one| one["type"] == "select") {
            let flat = items(&option["options"])
                .iter()
                .flat_map(|one| one["options"].as_array().map_or(std::slice::from_ref(one), Vec::as_slice));
            let present = &option["currentValue"];
            let value = flat.map(|one| &one["value"]).find(|value| *value != present).unwrap_or(present);
            let reply = self.set_option(&option[key], value).await?;
            let list = items(&reply["result"]["configOptions"]);
            let now = list.iter().find(|one| one[key] == option[key]).map(|one| &one["currentValue"]);
            let set = now == Some(value) && list.len() >= all.len();
            self.expect("option-set", set, || format!("{} was set to {value}: {reply}", option[key]));
            let reply = self.set_option(&"tieline-check-no-such-option".into(), &"x".into()).await?;
            self.expect_refusal("option-unknown", &reply, None);
        } else {
            self.leave(&["option-set", "option-unknown"], Verdict::NotApplicable, "the session has no options");
        }
        self.login().await?;
        self.offered_only().await
    }

    async fn set_option(&mut self, id: &Value, value: &Value) -> Result<Value, Stop> {
        let mut params = json!({"configId": id, "value": value});
        if self.dialect == Dialect::V2 {
            params["type"] = "id".into();
        }
        self.peer()?.call_in("session/set_config_option", params).await
    }

    async fn login(&mut self) -> Result<(), Stop> {
        if items(&self.peer()?.hello["authMethods"]).is_empty() {
            self.add("login-unknown", Verdict::NotApplicable, "the agent has no login");
            return Ok(());
        }
        let method = if self.dialect == Dialect::V2 { "auth/login" } else { "authenticate" };
        let reply = self.peer()?.call(method, json!({"methodId": "tieline-check-no-such-login"})).await?;
        self.expect_refusal("login-unknown", &reply, None);
        Ok(())
    }

    async fn offered_only(&mut self) -> Result<(), Stop> {
        let mut any = false;
        for (method, _) in OPTIONAL {
            // Current version 2 promises most of them.
            let known = find(method).is_some_and(|row| row.dialects.has(self.dialect));
            let promised = self.dialect == Dialect::V2 && method != "session/delete";
            if !known || promised || self.peer()?.offers(method) {
                continue;
            }
            any = true;
            let params = json!({"cwd": self.peer()?.folder, "mcpServers": []});
            let reply = self.peer()?.call_in(method, params).await?;
            self.expect_refusal("offered-only", &reply, Some(-32601));
        }
        if !any {
            self.add("offered-only", Verdict::NotApplicable, "the agent offers all of them");
        }
        Ok(())
    }

    pub(super) async fn end(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        self.peer()?.pause().await?;
        let begun = Instant::now();
        let status = self.peer()?.finish(END).await;
        let took = begun.elapsed();
        let in_time = status.is_some() && took < Duration::from_secs(5);
        self.expect("end-exits", in_time, || format!("it had not ended after {} s", took.as_secs()));
        if let Some(status) = status {
            self.expect("end-code", status == tieline_process::Status::Code(0), || format!("it {status}"));
        }
        Ok(())
    }
}
