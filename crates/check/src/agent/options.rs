//! Scenarios of modes, options and logins, of what was not offered, and of the end.

use super::Stage;
use crate::peer::Stop;
use crate::sheet::Verdict;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tieline_schema::Dialect;

impl Stage {
    pub(super) async fn options(&mut self) -> Result<(), Stop> {
        let setup = self.ready().await?;
        let unknown = json!({"modeId": "tieline-check-no-such-mode"});
        match setup["modes"]["availableModes"].as_array() {
            Some(modes) if self.dialect == Dialect::V1 => {
                // Some may be refused, in a folder that is not trusted for example. Back to the first in the end.
                let (mut set, mut failed) = (false, String::new());
                for mode in modes.iter().chain(modes.first()) {
                    let reply = self.peer()?.call_in("session/set_mode", json!({"modeId": mode["id"]})).await?;
                    set |= reply.is_ok();
                    failed = format!("{}: {}", mode["id"], reply.message["error"]);
                }
                self.expect("mode-set", set, || failed);
                let reply = self.peer()?.call_in("session/set_mode", unknown).await?;
                self.expect("mode-unknown", reply.code().is_some(), || reply.message.to_string());
            }
            _ => self.leave(&["mode-set", "mode-unknown"], &Verdict::NotApplicable, "the session has no modes"),
        }
        let key = if self.dialect == Dialect::V2 { "configId" } else { "id" };
        let select =
            setup["configOptions"].as_array().and_then(|all| all.iter().find(|one| one["type"] == "select")).cloned();
        let typed = |mut params: Value, current: bool| {
            if current {
                params["type"] = "id".into();
            }
            params
        };
        let current = self.dialect == Dialect::V2;
        if let Some(option) = select {
            let values = option["options"].as_array().cloned().unwrap_or_default();
            let flat: Vec<&Value> = values
                .iter()
                .flat_map(|one| one["options"].as_array().map_or_else(|| vec![one], |all| all.iter().collect()))
                .collect();
            let value = flat.iter().map(|one| &one["value"]).find(|value| **value != option["currentValue"]).cloned();
            let value = value.unwrap_or_else(|| option["currentValue"].clone());
            let params = typed(json!({"configId": option[key], "value": value}), current);
            let reply = self.peer()?.call_in("session/set_config_option", params).await?;
            let list = reply.result()["configOptions"].as_array().cloned().unwrap_or_default();
            let now = list.iter().find(|one| one[key] == option[key]).map(|one| one["currentValue"].clone());
            let whole = list.len() >= setup["configOptions"].as_array().map_or(0, Vec::len);
            self.expect("option-set", now.as_ref() == Some(&value) && whole, || {
                format!("{} was set to {value}: {}", option[key], reply.message)
            });
            let params = typed(json!({"configId": "tieline-check-no-such-option", "value": "x"}), current);
            let reply = self.peer()?.call_in("session/set_config_option", params).await?;
            self.expect("option-unknown", reply.code().is_some(), || reply.message.to_string());
        } else {
            self.leave(&["option-set", "option-unknown"], &Verdict::NotApplicable, "the session has no options");
        }
        self.login().await?;
        self.offered_only().await
    }

    async fn login(&mut self) -> Result<(), Stop> {
        let methods = self.peer()?.hello["authMethods"].as_array().map_or(0, Vec::len);
        if methods == 0 {
            self.add("login-unknown", Verdict::NotApplicable, "the agent has no login");
            return Ok(());
        }
        let method = if self.dialect == Dialect::V2 { "auth/login" } else { "authenticate" };
        let reply = self.peer()?.call(method, json!({"methodId": "tieline-check-no-such-login"})).await?;
        self.expect("login-unknown", reply.code().is_some(), || reply.message.to_string());
        Ok(())
    }

    async fn offered_only(&mut self) -> Result<(), Stop> {
        let optional = [
            ("session/load", "session/load", "loadSession"),
            ("session/resume", "session/resume", "sessionCapabilities/resume"),
            ("session/list", "session/list", "sessionCapabilities/list"),
            ("session/close", "session/close", "sessionCapabilities/close"),
            ("session/delete", "session/delete", "sessionCapabilities/delete"),
            ("logout", "auth/logout", "auth/logout"),
        ];
        let mut any = false;
        for (method, v2, v1) in optional {
            // Current version 2 promises most of them.
            if self.dialect == Dialect::V2 && method != "session/delete" || self.peer()?.offers(v2, v1) {
                continue;
            }
            any = true;
            let folder = self.peer()?.folder.clone();
            let session = self.peer()?.session.clone();
            let reply =
                self.peer()?.call(method, json!({"sessionId": session, "cwd": folder, "mcpServers": []})).await?;
            self.expect("offered-only", reply.code() == Some(-32601), || {
                format!("`{method}` is not offered, and this came back: {}", reply.message)
            });
        }
        if !any {
            self.add("offered-only", Verdict::NotApplicable, "the agent offers all of them");
        }
        Ok(())
    }

    pub(super) async fn end(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        self.peer()?.canary().await?;
        let begun = Instant::now();
        let status = self.peer()?.finish().await;
        let took = begun.elapsed();
        let in_time = took < Duration::from_secs(5);
        self.expect("end-exits", status.is_some() && in_time, || {
            format!("it had not ended after {} s", took.as_secs())
        });
        if let Some(status) = status {
            self.expect("end-code", status == tieline_process::Status::Code(0), || format!("it {status}"));
        }
        Ok(())
    }
}
